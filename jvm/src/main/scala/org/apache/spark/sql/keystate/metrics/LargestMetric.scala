package org.apache.spark.sql.keystate.metrics

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state.StateStoreCustomMetric
import org.apache.spark.util.AccumulatorV2

/** A metric of a store that is the largest of all tasks, where Spark's own are sums.
  *
  * Relies on `StateStoreWriter`: it makes the accumulator by `createSQLMetric`, each task adds to a
  * copy of it, and the progress takes its value.
  */
private[keystate] final case class LargestMetric(name: String, desc: String)
    extends StateStoreCustomMetric {
  override def withNewDesc(desc: String): StateStoreCustomMetric = copy(desc = desc)

  override def createSQLMetric(context: SparkContext): SQLMetric = {
    val metric = new LargestMetric.Value
    metric.register(context, Some(desc))
    metric
  }
}

private[keystate] object LargestMetric {
  // The type is that of `SQLMetrics.createMetric`: how Spark's UI shows it.
  final class Value extends SQLMetric("sum", 0) {
    override def copy(): SQLMetric = {
      val copied = new Value
      copied.set(value)
      copied
    }

    override def add(v: Long): Unit = if (v > value) set(v)

    override def merge(other: AccumulatorV2[Long, Long]): Unit =
      add(other.value)
  }
}
