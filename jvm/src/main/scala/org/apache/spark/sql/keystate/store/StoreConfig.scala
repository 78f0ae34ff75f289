package org.apache.spark.sql.keystate.store

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.internal.SQLConf

import keystate.backend.StateBackendFactory
import keystate.checkpoint.StoreSettings
import keystate.config.Settings
import keystate.errors.KeystateErrors

/** The settings of a store, on the executor.
  *
  * Relies on two things that Spark sends there. `StateStoreConf` has only Spark's own keys, and the
  * operator's additions as `extraOptions`. The Hadoop configuration has all of the session's
  * settings (`SessionState.newHadoopConf`). The operator's value counts first, then the session's
  * setting.
  */
private[keystate] final class StoreConfig(storeConf: StateStoreConf, hadoopConf: Configuration) {

  val settings: StoreSettings = {
    val parallelism = Settings.Parallelism.in(storeConf.extraOptions.get)
    StoreSettings(
      maxParallelism = Settings.MaxParallelism.in(text),
      parallelism = parallelism,
      // The session of a running query always has this.
      hashPartitions =
        if (parallelism.isEmpty) positive(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key)
        else None,
      minVersionsToRetain = storeConf.minVersionsToRetain,
      minVersionsToDelete = storeConf.minVersionsToDelete
    )
  }

  val backends: StateBackendFactory =
    StateBackends.configured(Settings.Backend.of(text), withPrefix)

  val lockTimeoutMillis: Long = Settings.LockTimeoutMs.of(text).toLong

  /** How long the entries of a closed store stay in memory, in seconds. */
  val keepSeconds: Int = Settings.KeepSeconds.of(text)

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

  /** A session's settings, by their names. */
  def in(conf: SQLConf): String => Option[String] = key => Option(conf.getConfString(key, null))

  /** On the driver: throws the errors that a task would throw, before anything is started. */
  def check(conf: SQLConf): Unit = {
    val provider = conf.stateStoreProviderClass
    if (provider != Settings.ProviderClass)
      throw KeystateErrors.providerMissing(provider, Settings.ProviderClass)
    val settings = conf.getAllConfs
    Settings.check(settings.get)
    StateBackends.configured(
      Settings.Backend.of(settings.get),
      prefix =>
        settings.collect {
          case (key, value) if key.startsWith(prefix) =>
            key.drop(prefix.length) -> value
        }
    )
    ()
  }
}
