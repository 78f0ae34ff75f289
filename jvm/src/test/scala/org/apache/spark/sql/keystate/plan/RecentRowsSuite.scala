package org.apache.spark.sql.keystate.plan

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{DataType, IntegerType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String

class RecentRowsSuite extends AnyFunSuite {
  private val types = Seq[DataType](LongType, StringType)
  private val projection = UnsafeProjection.create(types.toArray)

  // The same row each time, as Spark's operators give them.
  private def row(number: Long, text: String): UnsafeRow =
    projection(InternalRow(number, if (text == null) null else UTF8String.fromString(text)))

  test("only rows that have come are repeats, and most of these are known") {
    val random = new Random(3)
    val recent = new RecentRows(types)
    val come = mutable.HashSet.empty[(Long, String)]
    var known = 0
    (1 to 400000).foreach { _ =>
      val number = random.nextInt(20000).toLong
      val text = number % 4 match {
        case 0 => null
        case 1 => ""
        case 2 => "x" * (number % 50).toInt
        case _ => s"$number"
      }
      if (!recent.isNew(row(number, text))) {
        known += 1
        assert(come((number, text)))
      }
      come += ((number, text))
    }
    assert(come.size == 20000)
    assert(known > 320000 && !recent.isOff)
  }

  test("where few rows are repeats it is not looked for them any more") {
    val recent = new RecentRows(types)
    (1 to RecentRows.Sample).foreach { i =>
      assert(!recent.isOff)
      assert(recent.isNew(row(i.toLong, "x")))
    }
    assert(recent.isOff)
  }

  test("large rows are not remembered") {
    val recent = new RecentRows(types)
    Seq("x" * 200, "y").foreach { text =>
      assert(recent.isNew(row(1, text)))
      assert(recent.isNew(row(1, text)) == text.length > RecentRows.LargestWords * 8)
    }
  }

  test("rows of numbers are known too") {
    val numbers = Seq[DataType](LongType, IntegerType, LongType)
    val projection = UnsafeProjection.create(numbers.toArray)
    val recent = new RecentRows(numbers)
    def isNew(number: Int): Boolean =
      recent.isNew(
        projection(InternalRow(number.toLong, if (number % 3 == 0) null else number, 7L))
      )
    assert((1 to 30000).forall(isNew))
    val known = (1 to 30000).count(!isNew(_))
    assert(known > 20000)
    assert((30001 to 40000).forall(isNew))
  }
}
