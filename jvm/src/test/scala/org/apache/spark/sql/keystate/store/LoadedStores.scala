package org.apache.spark.sql.keystate.store

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.SparkEnv
import org.apache.spark.sql.execution.streaming.state.{
  StateStore, StateStoreCoordinatorRef, StateStoreProvider, StateStoreProviderId
}

import keystate.config.Settings
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

/** The stores that this JVM keeps loaded, which outlive their session. */
object LoadedStores {
  def unload(): Unit = StateStore.stop()

  /** Classes of the backends that stores with a session's settings work on, or of providers that
    * are not ours.
    */
  def backends: Set[Class[_]] = providers.flatMap {
    case (_, ours: KeyGroupStateStoreProvider) =>
      Option.when(ours.versions.isLoaded && ours.hadoopConf.get(Settings.Backend.key) != null)(
        ours.versions.backend.getClass
      )
    case (_, other) => Some(other.getClass)
  }.toSet

  /** The newest version of each of a run's stores that Spark's coordinator takes for a snapshot. */
  def snapshots(runId: UUID): Seq[Option[Any]] = {
    val coordinator = StateStoreCoordinatorRef.forExecutor(SparkEnv.get)
    val latest = coordinator.getClass
      .getMethod("getLatestSnapshotVersionForTesting", classOf[StateStoreProviderId])
    providers.collect {
      case (id, _) if id.queryRunId == runId =>
        latest.invoke(coordinator, id).asInstanceOf[Option[Any]]
    }
  }

  private def providers: Seq[(StateStoreProviderId, StateStoreProvider)] =
    loaded.synchronized(loaded.toSeq)

  private lazy val loaded = {
    val field = StateStore.getClass.getDeclaredField("loadedProviders")
    field.setAccessible(true)
    field.get(StateStore).asInstanceOf[mutable.Map[StateStoreProviderId, StateStoreProvider]]
  }
}
