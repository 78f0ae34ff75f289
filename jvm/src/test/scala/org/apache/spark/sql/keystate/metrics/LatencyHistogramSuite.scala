package org.apache.spark.sql.keystate.metrics

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

class LatencyHistogramSuite extends AnyFunSuite {
  test("buckets follow one another without gaps, up to the longest duration") {
    val boundaries = (0 until LatencyHistogram.bucketOf(Long.MaxValue)).map { bucket =>
      val greatest = LatencyHistogram.greatestOf(bucket)
      assert(LatencyHistogram.bucketOf(greatest) == bucket)
      assert(LatencyHistogram.bucketOf(greatest + 1) == bucket + 1)
      greatest
    }
    assert(boundaries.head == 0)
  }

  test("percentiles are at most an eighth too high, also of several histograms together") {
    val random = new Random(1)
    for (scale <- Seq(5, 1000, 1000000); size <- Seq(1, 2, 99, 5000)) {
      val durations = Seq.fill(size)((random.nextDouble() * random.nextDouble() * scale).toLong)
      val parts = durations.grouped(1 + size / 3).map { part =>
        val histogram = new LatencyHistogram
        part.foreach(histogram.add)
        histogram
      }
      val all = parts.reduce(_ merge _)
      val sorted = durations.sorted
      assert(all.count == size && all.max == sorted.last)
      for (p <- Seq(0.5, 0.95, 0.99, 1.0)) {
        val exact = sorted(math.ceil(size * p).toInt - 1)
        assert(all.percentile(p) >= exact && all.percentile(p) <= exact * 1.125)
      }
    }
  }

  test("without durations, percentiles are 0; a negative one counts as 0") {
    val histogram = new LatencyHistogram
    assert(histogram.percentile(0.99) == 0)
    histogram.add(-3)
    assert(histogram.count == 1 && histogram.percentile(0.5) == 0)
  }
}
