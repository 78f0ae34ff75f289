package org.apache.spark.sql.keystate.metrics

import java.lang.Long.numberOfLeadingZeros

/** A histogram of many durations: counts in buckets that get wider with the durations, as in
  * HdrHistogram. A bucket is an eighth of a power of two wide, so a percentile is at most 12.5 %
  * too high. Durations below 8 µs have a bucket each.
  */
private[keystate] final class LatencyHistogram extends Serializable {
  import LatencyHistogram._

  private val counts = new Array[Long](Buckets)
  private var longest = 0L

  /** @param micros negative is taken for 0: the clocks of two cores may differ */
  def add(micros: Long): Unit = {
    val duration = Math.max(0, micros)
    counts(bucketOf(duration)) += 1
    longest = Math.max(longest, duration)
  }

  def merge(other: LatencyHistogram): LatencyHistogram = {
    val merged = new LatencyHistogram
    for (i <- counts.indices) merged.counts(i) = counts(i) + other.counts(i)
    merged.longest = Math.max(longest, other.longest)
    merged
  }

  def count: Long = counts.sum

  /** The longest duration, in µs; 0 if there is none. */
  def max: Long = longest

  /** The duration in µs that the share `p` of all does not exceed; 0 if there is none. */
  def percentile(p: Double): Long = {
    val rank = Math.ceil(count * p).toLong
    var bucket = 0
    var below = counts(0)
    while (below < rank) {
      bucket += 1
      below += counts(bucket)
    }
    Math.min(greatestOf(bucket), longest)
  }
}

private[keystate] object LatencyHistogram {
  private final val Bits = 3 // bits of a duration after its first set bit, which select its bucket
  private final val Parts = 1 << Bits
  private final val Buckets = (64 - Bits) * Parts

  private[metrics] def bucketOf(micros: Long): Int =
    if (micros < Parts) micros.toInt
    else {
      val shift = 63 - Bits - numberOfLeadingZeros(micros)
      (shift + 1) * Parts + ((micros >>> shift) & (Parts - 1)).toInt
    }

  /** The longest duration in a bucket. */
  private[metrics] def greatestOf(bucket: Int): Long =
    if (bucket < Parts) bucket.toLong
    else {
      val shift = bucket / Parts - 1
      ((Parts + bucket % Parts + 1).toLong << shift) - 1
    }
}
