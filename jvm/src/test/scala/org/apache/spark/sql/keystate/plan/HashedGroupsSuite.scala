package org.apache.spark.sql.keystate.plan

import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.types.LongType

class HashedGroupsSuite extends AnyFunSuite {
  import HashedGroups._

  private val wanted = Seq(5, 300000)

  /** Of rows of a group and two values: how often each group came, its rows, and its hashes. */
  private def found(rows: Iterator[InternalRow]): Map[Long, (Int, Long, Seq[Set[Long]])] = {
    val hashOf = (column: Int) => (row: InternalRow) => row.getLong(column)
    val groups = new HashedGroups(wanted, Array(1, 2), Array(hashOf(1), hashOf(2)))
    val groupOf = UnsafeProjection.create(Seq(BoundReference(0, LongType, nullable = false)))
    val all = mutable.HashMap.empty[Long, (Int, Long, Seq[Set[Long]])]
    groups.of(rows, groupOf).foreach { row =>
      val (times, count, hashes) =
        all.getOrElse(row.getLong(0), (0, 0L, Seq.fill(2)(Set.empty[Long])))
      val more = Seq(2, 3).map { column =>
        val buffer = ByteBuffer.wrap(row.getBinary(column)).order(ByteOrder.LITTLE_ENDIAN)
        Seq.fill(buffer.remaining / 8)(buffer.getLong).toSet
      }
      val both = hashes.zip(more).map { case (a, b) => a ++ b }
      all(row.getLong(0)) = (times + 1, count + row.getLong(1), both)
    }
    all.toMap
  }

  /** Checks what comes of groups and numbers: all rows, and the least hashes. */
  private def check(rows: Seq[(Long, Long)]): Map[Long, Int] = {
    def value(number: Long): Any = if (number % 3 == 0) null else number
    val made = found(rows.iterator.map { case (group, n) => InternalRow(group, value(n), n) })
    val expected = rows.groupMap(_._1)(_._2)
    assert(made.keySet == expected.keySet)
    made.foreach { case (group, (_, count, hashes)) =>
      val numbers = expected(group)
      assert(count == numbers.size)
      Seq(numbers.filter(_ % 3 != 0), numbers).zip(hashes).zip(wanted).foreach {
        case ((values, least), most) =>
          val sorted = values.distinct.sorted.take(most)
          assert(least.toSeq.sorted.take(most) == sorted)
      }
    }
    made.map { case (group, (times, _, _)) => group -> times }
  }

  test("a group comes once") {
    val random = new Random(7)
    val times = check(Seq.fill(100000)((random.nextInt(50).toLong, random.nextInt(4000).toLong)))
    assert(times.size == 50 && times.values.forall(_ == 1))
    assert(check(Nil).isEmpty)
  }

  test("where there are many hashes a group comes again") {
    val times = check((1 to MostHashes + 100000).map(n => ((n % 4).toLong, n.toLong)))
    assert(times.size == 4 && times.values.sum > 4)
  }

  test("where most rows have a group of their own they come one by one") {
    val rows = (1 to Sample + 1000).map(n => (n.toLong, n.toLong)) ++
      Seq.fill(10)((Long.MaxValue, 1L))
    assert(check(rows)(Long.MaxValue) == 10)
  }
}
