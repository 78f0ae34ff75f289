package org.apache.spark.sql.keystate.expression

/** Times in us, and those of timers, in ms. Sums end at the least and the greatest number. */
private[expression] object Micros {
  def plus(time: Long, span: Long): Long = {
    val sum = time + span
    if (((time ^ sum) & (span ^ sum)) >= 0) sum
    else if (time < 0) Long.MinValue
    else Long.MaxValue
  }

  def minus(time: Long, span: Long): Long = plus(time, -span)

  /** The first ms at which a time in us has passed. */
  def millis(micros: Long): Long = Math.floorDiv(micros, 1000L) +
    (if (Math.floorMod(micros, 1000L) == 0) 0 else 1)

  def ofMillis(millis: Long): Long =
    if (millis > Long.MaxValue / 1000) Long.MaxValue
    else if (millis < Long.MinValue / 1000) Long.MinValue
    else millis * 1000
}
