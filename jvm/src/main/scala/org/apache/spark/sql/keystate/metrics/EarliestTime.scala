package org.apache.spark.sql.keystate.metrics

import org.apache.spark.util.AccumulatorV2

/** The earliest of the times that tasks add. `Long.MaxValue` while there is none. */
private[keystate] final class EarliestTime extends AccumulatorV2[Long, Long] {
  private var time = Long.MaxValue

  override def isZero: Boolean = time == Long.MaxValue
  override def copy(): EarliestTime = {
    val copied = new EarliestTime
    copied.time = time
    copied
  }
  override def reset(): Unit = time = Long.MaxValue
  override def add(other: Long): Unit = time = math.min(time, other)
  override def merge(other: AccumulatorV2[Long, Long]): Unit = add(other.value)
  override def value: Long = time
}
