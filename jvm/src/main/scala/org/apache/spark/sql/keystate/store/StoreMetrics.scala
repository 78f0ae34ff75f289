package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCustomMetric,
  StateStoreCustomSizeMetric,
  StateStoreCustomSumMetric,
  StateStoreCustomTimingMetric
}

import keystate.checkpoint.VersionedStore
import org.apache.spark.sql.keystate.metrics.LargestMetric

/** The metrics of a store besides Spark's own. Spark takes the list of them from a provider that
  * was never initialised, and expects exactly these from each store.
  */
private[keystate] object StoreMetrics {
  private val loadTime =
    StateStoreCustomTimingMetric("keystateLoadMs", "Keystate: time to load the state")
  private val runsLoaded =
    StateStoreCustomSumMetric("keystateRunsLoaded", "Keystate: runs read by loading the state")
  private val commitTime =
    StateStoreCustomTimingMetric("keystateCommitSyncMs", "Keystate: time to write the changes")
  private val filesWritten =
    StateStoreCustomSumMetric("keystateFilesWritten", "Keystate: files written by the commit")
  private val bytesWritten =
    StateStoreCustomSizeMetric("keystateBytesWritten", "Keystate: bytes written by the commit")
  private val runs = StateStoreCustomSumMetric("keystateRuns", "Keystate: runs of the version")
  private val runBytes =
    StateStoreCustomSizeMetric("keystateRunBytes", "Keystate: bytes of the version's runs")
  private val merges = StateStoreCustomSumMetric(
    "keystateMerges",
    "Keystate: background merges since the store was opened here"
  )
  private val largest =
    LargestMetric("keystateLargestPartition", "Keystate: entries of the largest partition")
  private val onDisk = StateStoreCustomSumMetric(
    "keystateStoresOnDisk",
    "Keystate: stores that have their state in RocksDB, not on the heap"
  )
  private val moves = StateStoreCustomSumMetric(
    "keystateMoves",
    "Keystate: moves between the heap and RocksDB since the store was opened here"
  )
  private val puts =
    StateStoreCustomSumMetric("keystatePuts", "Keystate: files written since the last commit")
  private val gets =
    StateStoreCustomSumMetric("keystateGets", "Keystate: files opened since the last commit")
  private val lists =
    StateStoreCustomSumMetric("keystateLists", "Keystate: folders listed since the last commit")
  // The name is Spark's. Each version is as good as a snapshot, so there is nothing to force.
  private val forceSnapshot = StateStoreCustomSumMetric(
    "forceSnapshotCount",
    "Keystate: commits that Spark wanted a snapshot of"
  )

  val all: Seq[StateStoreCustomMetric] = Seq(
    loadTime,
    runsLoaded,
    commitTime,
    filesWritten,
    bytesWritten,
    runs,
    runBytes,
    merges,
    largest,
    onDisk,
    moves,
    puts,
    gets,
    lists,
    forceSnapshot
  )

  /** @param entries
    *   of the store
    */
  def of(
      store: VersionedStore,
      entries: Long,
      snapshotForced: Boolean
  ): Map[StateStoreCustomMetric, Long] = {
    val load = store.loadStatistics
    val commit = store.commitStatistics
    Map(
      loadTime -> load.millis,
      runsLoaded -> load.runs.toLong,
      commitTime -> commit.millis,
      filesWritten -> commit.filesWritten.toLong,
      bytesWritten -> commit.bytesWritten,
      runs -> store.manifest.runs.size.toLong,
      runBytes -> store.manifest.runs.map(_.bytes).sum,
      merges -> store.compactions,
      largest -> entries,
      onDisk -> (if (store.isOnDisk) 1L else 0L),
      moves -> store.moves,
      puts -> commit.requests.puts,
      gets -> commit.requests.gets,
      lists -> commit.requests.lists,
      forceSnapshot -> (if (snapshotForced) 1L else 0L)
    )
  }
}
