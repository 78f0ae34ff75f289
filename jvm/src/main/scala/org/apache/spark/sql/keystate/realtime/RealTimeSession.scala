package org.apache.spark.sql.keystate.realtime

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}

import keystate.config.Settings
import org.apache.spark.sql.keystate.shim.RealTimeMode

/** Settings of a session by which Spark lets Keystate's functions run in real-time mode. Has no
  * effect where Spark has no real-time mode for queries with state.
  *
  * Relies on Spark 4.3, which
  *   - refuses real-time mode in a session whose provider is set, and is not Spark's RocksDB one.
  *   So
  *     Keystate's provider is kept under another name, and each query gets it when it starts. A
  *     query's offset log names it as usual;
  *   - refuses operators by a list of class names. So this check is turned off, unless the user set
  *     it. Spark then only logs operators that are not in its list; `KeyedProcessExec` checks the
  *     plan below it.
  */
private[keystate] object RealTimeSession {
  private val Provider = SQLConf.STATE_STORE_PROVIDER_CLASS.key

  /** For a session whose provider is Keystate's. */
  private final val KeptProvider = "spark.sql.keystate.providerClass"

  private final val Listener = "org.apache.spark.sql.keystate.RescaleOnRestart"

  /** Called where a function is applied. */
  def prepare(session: SparkSession): Unit = RealTimeMode.Allowlist.foreach { allowlist =>
    val conf = session.sessionState.conf
    val isKeystates =
      conf.contains(Provider) && conf.stateStoreProviderClass == Settings.ProviderClass
    // Without the listener nothing would give it back.
    if (isKeystates && listeners(conf).contains(Listener)) {
      conf.setConfString(KeptProvider, Settings.ProviderClass)
      conf.unsetConf(Provider)
    }
    if (!conf.contains(allowlist)) conf.setConfString(allowlist, "false")
  }

  private def listeners(conf: SQLConf) =
    conf.getConf(StaticSQLConf.STREAMING_QUERY_LISTENERS).getOrElse(Nil)

  /** The provider that a query of a session starts with, if its checkpoint names none. */
  def provider(conf: SQLConf): String =
    if (conf.contains(Provider)) conf.stateStoreProviderClass
    else conf.getConfString(KeptProvider, conf.stateStoreProviderClass)

  /** Gives a query's own session the provider that was kept aside. */
  def giveProvider(ofQuery: SparkSession): Unit = {
    val conf = ofQuery.sessionState.conf
    if (!conf.contains(Provider) && conf.contains(KeptProvider))
      conf.setConfString(Provider, provider(conf))
  }
}
