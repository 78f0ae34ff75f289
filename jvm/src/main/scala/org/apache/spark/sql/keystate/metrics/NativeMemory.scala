package org.apache.spark.sql.keystate.metrics

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.MetricsSystem

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

  private final class NativeMemorySource extends GaugeSource("keystate") {
    gauge("rocksdb.usedBytes")(SharedMemory.usedBytes)
    gauge("rocksdb.limitBytes")(SharedMemory.limitBytes)
  }
}
