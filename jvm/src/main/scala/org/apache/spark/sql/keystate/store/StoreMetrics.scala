package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCustomMetric, StateStoreCustomSizeMetric, StateStoreCustomSumMetric,
  StateStoreCustomTimingMetric
}

import keystate.checkpoint.VersionedStore
import org.apache.spark.sql.keystate.metrics.LargestMetric

/** The metrics of a store besides Spark's own. Spark takes the list of them from a provider that
  * was never initialised, and expects exactly these from each store.
  */
private[keystate] object StoreMetrics {

  /** @param entries
    *   of the store
    */
  private final case class Reading(store: VersionedStore, entries: Long, snapshotForced: Boolean) {
    val load = store.loadStatistics
    val commit = store.commitStatistics
  }

  private def millis(name: String, of: String) =
    StateStoreCustomTimingMetric(name, s"Keystate: $of")
  private def sum(name: String, of: String) = StateStoreCustomSumMetric(name, s"Keystate: $of")
  private def bytes(name: String, of: String) = StateStoreCustomSizeMetric(name, s"Keystate: $of")
  private def largest(name: String, of: String) = LargestMetric(name, s"Keystate: $of")

  private def isSo(flag: Boolean): Long = if (flag) 1 else 0

  private val measured: Seq[(StateStoreCustomMetric, Reading => Long)] = Seq(
    millis("keystateLoadMs", "time to load the state") -> (_.load.millis),
    sum("keystateRunsLoaded", "runs read by loading the state") -> (_.load.runs.toLong),
    millis("keystateCommitSyncMs", "time to write the changes") -> (_.commit.millis),
    sum("keystateFilesWritten", "files written by the commit") -> (_.commit.filesWritten.toLong),
    bytes("keystateBytesWritten", "bytes written by the commit") -> (_.commit.bytesWritten),
    sum("keystateRuns", "runs of the version") -> (_.store.manifest.runs.size.toLong),
    bytes("keystateRunBytes", "bytes of the version's runs") ->
      (_.store.manifest.runs.map(_.bytes).sum),
    sum("keystateMerges", "background merges since the store was opened here") ->
      (_.store.compactions),
    largest("keystateLargestPartition", "entries of the largest partition") -> (_.entries),
    sum("keystateStoresOnDisk", "stores that have their state in RocksDB, not on the heap") ->
      (reading => isSo(reading.store.isOnDisk)),
    sum(
      "keystateMoves",
      "moves between the heap and RocksDB since the store was opened here"
    ) -> (_.store.moves),
    sum("keystatePuts", "files written since the last commit") -> (_.commit.requests.puts),
    sum("keystateGets", "files opened since the last commit") -> (_.commit.requests.gets),
    sum("keystateLists", "folders listed since the last commit") -> (_.commit.requests.lists),
    // The name is Spark's. Each version is as good as a snapshot, so there is nothing to force.
    sum("forceSnapshotCount", "commits that Spark wanted a snapshot of") ->
      (reading => isSo(reading.snapshotForced))
  )

  val all: Seq[StateStoreCustomMetric] = measured.map(_._1)

  /** @param entries
    *   of the store
    */
  def of(
      store: VersionedStore,
      entries: Long,
      snapshotForced: Boolean
  ): Map[StateStoreCustomMetric, Long] = {
    val reading = Reading(store, entries, snapshotForced)
    measured.map { case (metric, read) => metric -> read(reading) }.toMap
  }
}
