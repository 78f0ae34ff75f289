package org.apache.spark.sql.keystate.expression

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, AggregateFunction}
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, BoundReference, CreateNamedStruct, Literal, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, encoders}
import org.apache.spark.sql.expressions.Aggregator
import org.apache.spark.sql.functions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.{Column, DataFrame, Encoder, Encoders}

import keystate.SessionFixture
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.shim.SparkLine

final case class Measured(n: java.lang.Long, x: java.lang.Double, text: String, isOdd: Boolean)

/** The product of numbers, with an object as its buffer. */
object Product extends Aggregator[Long, Seq[Long], Long] {
  override def zero: Seq[Long] = Nil
  override def reduce(buffer: Seq[Long], n: Long): Seq[Long] = buffer :+ n
  override def merge(one: Seq[Long], other: Seq[Long]): Seq[Long] = one ++ other
  override def finish(buffer: Seq[Long]): Long = buffer.map(_ + 1).product
  override def bufferEncoder: Encoder[Seq[Long]] = encoders.ExpressionEncoder[Seq[Long]]()
  override def outputEncoder: Encoder[Long] = Encoders.scalaLong
}

class AggregateBuffersSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val random = new Random(7)

  private def rows(count: Int): Seq[Measured] = Seq.fill(count) {
    def maybe[T >: Null](value: T): T = if (random.nextInt(5) == 0) null else value
    Measured(
      maybe(Long.box(random.nextInt(20).toLong)),
      maybe(Double.box(random.nextInt(64) / 4.0)), // sums of these are exact in any order
      maybe("x" * random.nextInt(4)),
      random.nextBoolean()
    )
  }

  private val fixed = Seq(
    sum($"n"),
    expr("sum(n) FILTER (WHERE isOdd)"),
    count(lit(1)),
    avg($"x"),
    max($"x"),
    bit_xor($"n"),
    approx_count_distinct($"n"),
    expr("approx_count_distinct(n) FILTER (WHERE isOdd)")
  )
  // One whose buffers are changed in place, though no object: Spark has it from 4.2 on.
  private val inPlace =
    if (SparkLine.Name == "4.1") Nil else Seq(expr("max_by(n, n, 2)"), expr("min_by(n, n, 2)"))
  private val variable = Seq(max($"text"), max_by($"text", $"n"), sum($"five")) ++ inPlace
  private val objects = Seq(
    collect_list($"n"),
    expr("collect_list(n) FILTER (WHERE isOdd)"),
    collect_set($"text"),
    percentile_approx($"x", lit(0.5), lit(100)),
    percentile($"x", lit(0.25)),
    udaf(Product).apply($"n"),
    expr("count_min_sketch(n, 0.5d, 0.5d, 1)")
  )

  /** Buffers of aggregates of such rows, all of them in columns of their own or of one. */
  private final class Aggregates(aggregates: Seq[Column], oneColumn: Boolean = false) {
    private val node = frame(Nil)
      .groupBy()
      .agg(aggregates.head, aggregates.tail: _*)
      .queryExecution
      .analyzed
      .asInstanceOf[Aggregate]
    private val functions =
      node.aggregateExpressions.flatMap(_.collect { case call: AggregateExpression =>
        val own = call.aggregateFunction.clone().asInstanceOf[AggregateFunction]
        FilteredFunction(own, call.filter.map(_.asInstanceOf[Attribute]))
      })
    private val columns =
      if (oneColumn) Seq(AggregateColumn("all", functions))
      else functions.zipWithIndex.map { case (each, i) => AggregateColumn(s"c$i", Seq(each)) }
    val stateType: StructType = AggregateColumn.stateType(columns)

    def buffers: AggregateBuffers =
      new AggregateBuffers(columns, AggregateInput.Rows(node.child.output), Nil, None)

    private val types = functions.map(_.function.dataType)
    private val read = types.map(CatalystTypeConverters.createToScalaConverter)

    def results(buffers: AggregateBuffers, of: Buffers): Seq[Any] = {
      val row = buffers.results(InternalRow.empty, of)
      types.indices.map(i => comparable(read(i)(row.get(i, types(i): DataType))))
    }
  }

  private def comparable(value: Any): Any = value match {
    case all: scala.collection.Seq[_] => all.map(String.valueOf).sorted.toSeq
    case bytes: Array[Byte] => bytes.toSeq
    case other => other
  }

  private def frame(rows: Seq[Measured]): DataFrame =
    rows.toDF().withColumn("five", ($"x" * 0 + 5).cast("decimal(30,2)"))

  private def input(rows: Seq[Measured]): Seq[InternalRow] =
    frame(rows).queryExecution.executedPlan.executeCollect().toSeq

  /** What Spark's own aggregation makes of the rows. */
  private def expected(rows: Seq[Measured], aggregates: Seq[Column]): Seq[Any] =
    frame(rows).agg(aggregates.head, aggregates.tail: _*).head().toSeq.map(comparable)

  /** Buffers that have these rows. */
  private def having(buffers: AggregateBuffers, rows: Seq[InternalRow]): Buffers = {
    val own = buffers.create()
    rows.foreach(buffers.add(own, _))
    own
  }

  for ((name, all) <- Seq("fixed" -> fixed, "variable" -> variable, "objects" -> objects)) {
    val named = all.zipWithIndex.map { case (each, i) => each.as(s"r$i") }

    test(s"as Spark aggregates, stored and merged in between: $name") {
      Seq(true, false).foreach { oneColumn =>
        val aggregates = new Aggregates(named, oneColumn)
        val buffers = aggregates.buffers
        assert(buffers.isFixed == (name == "fixed"))
        Seq(0, 1, 3, 60).foreach { size =>
          val all = rows(size)
          val parts = input(all).grouped(1 + random.nextInt(10)).toSeq
          // One that goes on from what is stored, and one that others are merged into.
          var stored = buffers.write(buffers.create())
          val merged = buffers.create()
          parts.foreach { part =>
            val next = buffers.read(stored)
            part.foreach(buffers.add(next, _))
            stored = buffers.write(next)
            buffers.merge(merged, having(buffers, part))
          }
          val wanted = expected(all, named)
          assert(aggregates.results(buffers, buffers.read(stored)) == wanted)
          assert(aggregates.results(buffers, merged) == wanted)
          // By other buffers: of another task.
          val others = new Aggregates(named, oneColumn)
          val other = others.buffers
          assert(others.results(other, other.read(stored)) == wanted)
        }
      }
    }

    test(s"what is read leaves the stored bytes as they are: $name") {
      val aggregates = new Aggregates(named)
      val buffers = aggregates.buffers
      val some = input(rows(30))
      val stored = buffers.write(having(buffers, some))
      val kept = stored.clone()
      val first = buffers.read(stored)
      some.foreach(buffers.add(first, _))
      aggregates.results(buffers, first)
      val second = buffers.read(stored)
      buffers.merge(second, buffers.read(stored))
      buffers.merge(first, second)
      buffers.write(first)
      assert(stored.sameElements(kept))
      // Nor are buffers changed by what is read later.
      val third = buffers.read(stored)
      val told = aggregates.results(buffers, third)
      having(buffers, some.take(3))
      buffers.read(buffers.write(buffers.create()))
      assert(aggregates.results(buffers, third) == told)
    }

    test(s"what is read and not changed is stored alike: $name") {
      val aggregates = new Aggregates(named)
      val buffers = aggregates.buffers
      Seq(0, 30).foreach { size =>
        val stored = buffers.write(having(buffers, input(rows(size))))
        val again = buffers.write(buffers.read(stored))
        if (buffers.isFixed) assert(again.sameElements(stored))
        val told = Seq(stored, again).map(each => aggregates.results(buffers, buffers.read(each)))
        assert(told.head == told.last)
      }
    }

    test(s"a column that was not stored begins: $name") {
      val aggregates = new Aggregates(named)
      val buffers = aggregates.buffers
      val stored = buffers.write(having(buffers, input(rows(20))))
      val before = aggregates.results(buffers, buffers.read(stored))
      val none = expected(Nil, named)
      named.indices.foreach { i =>
        val fields = aggregates.stateType.fields.zipWithIndex.flatMap { case (field, at) =>
          val value =
            if (at == i) Literal(null, field.dataType)
            else BoundReference(at, field.dataType, nullable = true)
          Seq(Literal(field.name), value)
        }
        val struct = CreateNamedStruct(fields.toSeq)
        val row = new UnsafeRow(named.size)
        StateRows.point(row, stored)
        val without = UnsafeProjection.create(Seq(struct)).apply(row).getStruct(0, named.size)
        val found = aggregates.results(buffers, buffers.read(without.asInstanceOf[UnsafeRow]))
        assert(found == before.updated(i, none(i)))
      }
    }
  }

  test("a string of a collation outlives its row, also without generated code") {
    val named = Seq(expr("min(collate(text, 'UTF8_LCASE'))").as("r0"))
    val all = Seq("bbb", "aaa", "ccc").map(text => Measured(1L, 1.0, text, isOdd = true))
    val rows = input(all)
    Seq("CODEGEN_ONLY", "NO_CODEGEN").foreach { mode =>
      withSetting(SQLConf.CODEGEN_FACTORY_MODE.key, mode) {
        val aggregates = new Aggregates(named)
        val buffers = aggregates.buffers
        val reused = UnsafeProjection.create(frame(Nil).schema)
        val own = buffers.create()
        rows.foreach(row => buffers.add(own, reused(row)))
        assert(aggregates.results(buffers, own) == Seq("aaa"), mode)
      }
    }
  }

  test("functions of all kinds in one row of buffers") {
    val named = random.shuffle(fixed ++ variable ++ objects).zipWithIndex.map { case (each, i) =>
      each.as(s"r$i")
    }
    val aggregates = new Aggregates(named)
    val buffers = aggregates.buffers
    val all = rows(50)
    val (one, other) = input(all).splitAt(20)
    val own = buffers.read(buffers.write(having(buffers, one)))
    buffers.merge(own, having(buffers, other))
    assert(aggregates.results(buffers, own) == expected(all, named))
  }
}
