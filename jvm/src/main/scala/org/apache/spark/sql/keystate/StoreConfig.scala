package org.apache.spark.sql.keystate

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.internal.SQLConf

import keystate.backend.{StateBackendFactory, StateBackends}
import keystate.checkpoint.StoreSettings
import keystate.keygroup.KeyGroups

/** Settings of a store, on the executor.
  *
  * Spark's `StateStoreConf` carries only its own keys to the executors and what the operator adds
  * as `extraOptions`; but the Hadoop configuration that comes along has all of the session's
  * settings (`SessionState.newHadoopConf`). So an operator's word counts first, then the session's.
  */
private[keystate] final class StoreConfig(storeConf: StateStoreConf, hadoopConf: Configuration) {
  import StoreConfig._

  val settings: StoreSettings = {
    val maxParallelism = positive(MaxParallelism)
    maxParallelism.foreach(KeyGroups.checkMaxParallelism)
    val parallelism = storeConf.extraOptions.get(Parallelism).map(_.toInt)
    StoreSettings(
      maxParallelism = maxParallelism,
      parallelism = parallelism,
      // A running query's session has it always.
      hashPartitions =
        if (parallelism.isEmpty) positive(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key)
        else None,
      minVersionsToRetain = storeConf.minVersionsToRetain,
      minVersionsToDelete = storeConf.minVersionsToDelete
    )
  }

  val backends: StateBackendFactory =
    StateBackends.configured(text(StateBackends.Backend), withPrefix)

  val lockTimeoutMillis: Long = positive(LockTimeout).fold(DefaultLockTimeout)(_.toLong)

  private def withPrefix(prefix: String): Map[String, String] =
    hadoopConf.getPropsWithPrefix(prefix).asScala.toMap

  private def text(key: String): Option[String] =
    storeConf.extraOptions.get(key).orElse(Option(hadoopConf.get(key))).map(_.trim)

  private def positive(key: String): Option[Int] = text(key).map { value =>
    value.toIntOption.filter(_ > 0).getOrElse {
      throw new IllegalArgumentException(s"$key must be a positive number, and is '$value'")
    }
  }
}

private[keystate] object StoreConfig {

  /** On the driver: fails where a store would, before anything is started. */
  def checkBackend(conf: SQLConf): Unit = {
    val settings = conf.getAllConfs
    StateBackends.configured(
      settings.get(StateBackends.Backend).map(_.trim),
      prefix =>
        settings.collect {
          case (key, value) if key.startsWith(prefix) =>
            key.drop(prefix.length) -> value
        }
    )
    ()
  }

  /** Number of key groups. Fixed for a checkpoint's life. */
  final val MaxParallelism = "spark.keystate.maxParallelism"

  /** How long, in milliseconds, to wait for another attempt to let go of a store. */
  final val LockTimeout = "spark.keystate.lockTimeoutMs"

  /** Set by an operator whose partitions own the key groups by range: its number of partitions. */
  final val Parallelism = "spark.keystate.parallelism"

  private final val DefaultLockTimeout = 60000L
}
