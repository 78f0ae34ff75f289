package org.apache.spark.sql.keystate.store

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreId}

import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

/** Stands for the driver, which knows the id that each version was committed with. */
object CommittedIds {
  private val ids = new ConcurrentHashMap[(StateStoreId, Long), String]

  def get(store: StateStoreId, version: Long): Option[String] = Option(ids.get((store, version)))
  def put(store: StateStoreId, version: Long, id: Option[String]): Unit =
    id.foreach(ids.put((store, version), _))
}

/** A provider for suites that ask for versions without ids. */
class CommittedIdsProvider extends KeyGroupStateStoreProvider {

  override def getStore(
      version: Long,
      id: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = super.getStore(version, idOf(version, id), forceSnapshotOnCommit, loadEmpty)

  override def getReadStore(version: Long, id: Option[String]): StateStore =
    super.getReadStore(version, idOf(version, id))

  override private[keystate] def reportCommit(version: Long): Unit = {
    CommittedIds.put(stateStoreId, version, versions.manifest.id)
    super.reportCommit(version)
  }

  private def idOf(version: Long, id: Option[String]): Option[String] =
    id.orElse(CommittedIds.get(stateStoreId, version))
}
