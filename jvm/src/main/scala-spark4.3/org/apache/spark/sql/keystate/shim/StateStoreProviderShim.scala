package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state.StateStoreProvider

/** Spark 4.3's `StateStoreProvider`, whose maintenance is in two parts. */
private[keystate] trait StateStoreProviderShim extends StateStoreProvider {

  /** Relies on Spark calling this, and `doCleanupMaintenance`, from two threads in each interval. It
    * calls `doMaintenance` only before it unloads a provider. Keystate's maintenance is one piece of
    * work, so all of it is done here and the clean-up does nothing.
    */
  override def doSnapshotMaintenance(): Unit = doMaintenance()
}
