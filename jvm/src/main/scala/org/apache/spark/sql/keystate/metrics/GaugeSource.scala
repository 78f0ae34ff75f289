package org.apache.spark.sql.keystate.metrics

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.metrics.source.Source

/** A source of Spark's metrics system that has gauges.
  *
  * Relies on Dropwizard's registry: gauges that are added after the source was registered also
  * appear in the registry that it was registered with.
  */
private[metrics] abstract class GaugeSource(override val sourceName: String) extends Source {
  override val metricRegistry: MetricRegistry = new MetricRegistry

  protected final def gauge(name: String)(value: => Number): Unit = {
    val _ = metricRegistry.register(
      name,
      new Gauge[Number] {
        override def getValue: Number = value
      }
    )
  }
}
