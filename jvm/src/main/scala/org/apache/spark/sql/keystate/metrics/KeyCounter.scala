package org.apache.spark.sql.keystate.metrics

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}

/** Counts the keys of every n-th row of a task, by the algorithm of Misra and Gries: it forgets rare
  * keys, and no key that has more than one of `MostCounters` rows. Not by chance, so that a replay
  * does the same.
  *
  * @param keys
  *   the key columns
  * @param tell
  *   takes the result
  */
private[keystate] final class KeyCounter(
    every: Int,
    keys: Seq[Attribute],
    tell: SampledKeys => Unit
) extends SubtaskReport {
  import KeyCounter._

  private val counters = mutable.HashMap.empty[UnsafeRow, Long]
  private var sampled = 0L

  override def seeing(
      rows: Iterator[InternalRow],
      input: Seq[Attribute],
      keys: Seq[Attribute]
  ): Iterator[InternalRow] = {
    val keyOf = UnsafeProjection.create(keys, input)
    var skipped = 0
    rows.map { row =>
      skipped += 1
      if (skipped == every) {
        skipped = 0
        count(keyOf(row))
      }
      row
    }
  }

  private def count(key: UnsafeRow): Unit = {
    sampled += 1
    if (counters.contains(key)) counters(key) += 1
    else if (counters.size < MostCounters) counters(key.copy()) = 1
    else {
      val _ = counters
        .mapValuesInPlace((_, count) => count - 1)
        .filterInPlace((_, count) => count > 0)
    }
  }

  override def ended(): Unit = {
    val show = CatalystTypeConverters.createToScalaConverter(DataTypeUtils.fromAttributes(keys))
    val most = counters.toSeq.sortBy(-_._2).take(SampledKeys.Most)
    val counts = most.map { case (key, count) => show(key).toString.take(LongestKey) -> count }
    tell(SampledKeys(sampled, counts))
  }
}

private object KeyCounter {
  private val MostCounters = 1000

  /** In characters. */
  private val LongestKey = 100
}
