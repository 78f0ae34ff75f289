package org.apache.spark.sql.keystate.metrics

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.types.LongType

class KeyCounterSuite extends AnyFunSuite {
  private val key = AttributeReference("key", LongType)()

  private def sampled(every: Int, keys: Iterator[Long]): SampledKeys = {
    var told = SampledKeys.Empty
    val counter = new KeyCounter(every, Seq(key), told = _)
    counter.seeing(keys.map(InternalRow(_)), Seq(key), Seq(key)).foreach(_ => ())
    counter.ended()
    told
  }

  test("every row") {
    assert(sampled(1, Iterator(3, 1, 3)) == SampledKeys(3, Seq("[3]" -> 2L, "[1]" -> 1L)))
    assert(sampled(1, Iterator.empty) == SampledKeys.Empty)
    assert(sampled(1, Iterator(3, 1, 3)).hottestPercent.contains(66L))
    assert(SampledKeys.Empty.hottestPercent.isEmpty)
  }

  test("every third row") {
    val keys = Iterator.tabulate(31)(i => if (i % 3 == 2) 7L else 8L)
    assert(sampled(3, keys) == SampledKeys(10, Seq("[7]" -> 10L)))
  }

  test("rare keys are forgotten, and frequent ones are not") {
    val keys = Iterator.tabulate(100000)(i => if (i % 100 == 0) -1L else i.toLong)
    val found = sampled(1, keys)
    assert(found.rows == 100000)
    val (first, count) = found.counts.head
    assert(first == "[-1]" && count > 800 && count <= 1000)
    assert(found.counts.tail.forall(_._2 <= 1))
  }

  test("subtasks together") {
    val many = SampledKeys(50, (1 to SampledKeys.Most).map(i => s"[$i]" -> 5L))
    val merged = many.merge(SampledKeys(9, Seq("[x]" -> 6L, "[y]" -> 3L)))
    assert(merged.rows == 59 && merged.counts.size == SampledKeys.Most)
    assert(merged.counts.head == "[x]" -> 6L && !merged.counts.exists(_._1 == "[y]"))
  }
}
