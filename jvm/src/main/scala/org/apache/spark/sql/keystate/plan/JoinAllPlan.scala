package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Union}
import org.apache.spark.sql.types._

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.StoredOrder
import org.apache.spark.sql.keystate.expression.{Between, JoinAll, JoinedStream}
import org.apache.spark.sql.keystate.operator.InputRows
import org.apache.spark.sql.keystate.spec.{
  OperatorSpec, RowHandling, StateKind, StateSpec, TimeMode
}

/** Plans a join of many keyed inputs as an operator of their union, whose body is Spark's
  * expressions.
  */
private[keystate] object JoinAllPlan {

  def of(inputs: Seq[OperatorInput], spec: JoinAllSpec): LogicalPlan = {
    val plan = new JoinAllPlan(inputs, spec).plan
    SideOutput.noted(plan, spec.late) { names =>
      of(inputs, spec.copy(late = spec.late.map(_.among(names))))
    }
  }
}

private final class JoinAllPlan(inputs: Seq[OperatorInput], spec: JoinAllSpec) {
  private val isStreaming = inputs.head.child.isStreaming
  private val times: Seq[Attribute] = inputs.zipWithIndex.map { case (input, i) =>
    val own = new JoinedInput(input, s"${i + 1}.")
    spec.on(i).fold(own.time)(own.time)
  }

  /** The columns of each input in the result: all but the key. */
  private val shown: Seq[Seq[Attribute]] = inputs.map { input =>
    input.columns.filterNot(column => input.keys.exists(_.exprId == column.exprId))
  }
  private val keys = inputs.head.keys
  private def marksMatches = spec.rule.isInstanceOf[Between]
  private def unmatched = Alias(Literal(false), Between.Matched)()

  /** What is stored of each input: what is shown, and the time if it is a key. */
  private val stored: Seq[Seq[NamedExpression]] =
    shown.zip(times).zipWithIndex.map { case ((columns, time), i) =>
      val hidden = if (columns.exists(_.exprId == time.exprId)) Nil else Seq(time)
      columns ++ hidden ++ Option.when(i == 0 && marksMatches)(unmatched)
    }

  /** A column whose name is there already has a suffix in the result. */
  private val streams: Seq[JoinedStream] = {
    var taken = (keys.map(_.name) ++ spec.earliest).map(_.toLowerCase).toSet
    stored.zipWithIndex.map { case (columns, i) =>
      val names = shown(i).map { column =>
        val isTaken = taken(column.name.toLowerCase)
        if (isTaken) s"${column.name}${spec.suffixes(i)}" else column.name
      }
      taken ++= shown(i).map(_.name.toLowerCase)
      JoinedStream(
        StructType(columns.map(column => StructField(column.name, column.dataType))),
        columns.indexWhere(_.exprId == times(i).exprId),
        names
      )
    }
  }

  private val join = JoinAll(keys, streams, spec.rule, spec.earliest, spec.readsLate)

  def plan: LogicalPlan = {
    check()
    val rows = Union(inputs.indices.map(part))
    val all = rows.output
    val input = OperatorInput(rows, InputRows(all.take(keys.size), all, Nil))
    val main = join.output
    val schema = SideOutput.schema(main, spec.late -> main)
    KeyedProcess.of(join, input, None, schema, operator)
  }

  /** An input's rows as the operator reads them. The time has the name of the result's column that
    * goes on with the watermark.
    */
  private def part(i: Int): LogicalPlan = {
    val input = inputs(i)
    val own = input.keys.zip(keys).map { case (key, first) =>
      Alias(key, first.name)(explicitMetadata = Some(Metadata.empty))
    }
    val eventTime = spec.earliest.orElse(streams.head.names.lift(streams.head.time))
    val time =
      Alias(times(i), eventTime.getOrElse("_time"))(explicitMetadata = Some(times(i).metadata))
    val structs = streams.zipWithIndex.map { case (stream, j) =>
      val value =
        if (i != j) Literal(null, stream.stored)
        else
          CreateNamedStruct(stored(i).flatMap {
            case made: Alias => Seq(Literal(made.name), made.child)
            case column => Seq(Literal(column.name), column)
          })
      Alias(value, JoinAll.rows(j))()
    }
    Project((own :+ Alias(Literal(i), "_input")() :+ time) ++ structs, input.child)
  }

  private def operator: OperatorSpec = {
    val rows =
      StateSpec(JoinAll.StateName, StateKind.Value, "value", join.stored, None, StoredOrder.Natural)
    OperatorSpec(
      spec.name,
      spec.maxParallelism,
      if (isStreaming) TimeMode.EventTime else TimeMode.NoTime,
      timers = true,
      Seq(rows),
      sideOutputs = spec.readsLate,
      lateOutputs = if (spec.readsLate) Seq(Some(1)) else Nil,
      rowHandling = RowHandling(lateRows = spec.readsLate),
      outputDelay = if (isStreaming) (spec.rule.delay + 999) / 1000 else 0
    )
  }

  private def check(): Unit = {
    def refuse(problem: String) = throw KeystateErrors.declaration(problem)
    if (inputs.exists(_.child.isStreaming != isStreaming))
      refuse(
        "Streams can't be joined with tables here: all inputs are streams, or all are tables. A " +
          "table's rows can be looked up with an as-of join."
      )
    inputs.tail.foreach { input =>
      if (input.keys.map(_.dataType.asNullable) != keys.map(_.dataType.asNullable))
        throw KeystateErrors.keysDiffer(
          KeyedProcess.described(keys),
          KeyedProcess.described(input.keys)
        )
    }
    if (isStreaming) JoinedInput.checkPolicy()
    JoinedInput.checkNames(join.output.fieldNames.toSeq, "give other suffixes")
  }
}
