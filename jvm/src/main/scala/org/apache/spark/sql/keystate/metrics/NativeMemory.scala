package org.apache.spark.sql.keystate.metrics

import java.util.concurrent.atomic.AtomicReference

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.MetricsSystem
import org.apache.spark.metrics.source.Source

import keystate.backend.rocksdb.SharedMemory

/** The native memory that the RocksDB stores of this JVM share, as gauges of an executor. */
private[keystate] object NativeMemory {
  private val system = new AtomicReference[MetricsSystem]

  /** Adds the gauges to Spark's metrics system, if they are not there.
    *
    * Relies on `SparkEnv.metricsSystem`; an executor has one of its own.
    */
  def report(): Unit =
    for {
      env <- Option(SparkEnv.get)
      current <- Option(env.metricsSystem)
      if system.getAndSet(current) ne current
    } current.registerSource(new NativeMemorySource)

  private final class NativeMemorySource extends Source {
    override val sourceName: String = "keystate"
    override val metricRegistry: MetricRegistry = new MetricRegistry

    gauge("rocksdb.usedBytes")(SharedMemory.usedBytes)
    gauge("rocksdb.limitBytes")(SharedMemory.limitBytes)

    private def gauge(name: String)(value: => Long): Unit = {
      val _ = metricRegistry.register(
        name,
        new Gauge[Long] {
          override def getValue: Long = value
        }
      )
    }
  }
}
