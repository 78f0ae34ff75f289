package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state.{
  ReadStateStore, StateStore, StateStoreProvider
}

/** Spark 4.1's `StateStoreProvider`, which never asks for a snapshot at a commit or for an empty
  * store. Its maintenance is `doMaintenance`.
  */
private[keystate] trait StateStoreProviderShim extends StateStoreProvider {

  def getStore(
      version: Long,
      stateStoreCkptId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore

  def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean
  ): StateStore

  final override def getStore(version: Long, stateStoreCkptId: Option[String]): StateStore =
    getStore(version, stateStoreCkptId, forceSnapshotOnCommit = false, loadEmpty = false)

  final override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String]
  ): StateStore =
    upgradeReadStoreToWriteStore(readStore, version, uniqueId, forceSnapshotOnCommit = false)
}
