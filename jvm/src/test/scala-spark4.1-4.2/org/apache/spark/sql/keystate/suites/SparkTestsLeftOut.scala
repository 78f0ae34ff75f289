package org.apache.spark.sql.keystate.suites

/** Tests of Spark's own suites that are left out, by how their names begin, and why. */
private[keystate] object SparkTestsLeftOut {
  private val checkpointsOfSparksProviders = Seq(
    "simple count, update mode - recovery from checkpoint uses state format version 1",
    "SPARK-39650: recovery from checkpoint",
    "SPARK-26187 restore the stream-stream",
    "SPARK-48687 - restore the stream-stream",
    "recover from a Spark v2.1 checkpoint",
    "detect escaped path and report the migration guide",
    "ignore the escaped path check when the flag is off",
    "recovery from Spark ver 2.3.1 commit log without commit metadata",
    "MultipleWatermarkPolicy: recovery from Spark ver 2.3.1 checkpoints",
    "flatMapGroupsWithState - recovery from checkpoint uses state format version 1",
    "SPARK-53942: stateful shuffle partitions are retained from old checkpoint",
    "SPARK-38204: streaming aggregation should require ClusteredDistribution from children if",
    "SPARK-38204: streaming deduplication should require ClusteredDistribution from children if",
    "SPARK-38204: session window aggregation should require ClusteredDistribution from children if",
    "SPARK-38204: flatMapGroupsWithState should require ClusteredDistribution from children if"
  )

  // With all checks off a row is read by a wrong schema, and the test wants that to fail in some
  // way. It does with the HDFS-backed provider, and does not with Spark's RocksDB one.
  private val undefined =
    Seq(
      "changing schema of state when restarting query - schema check off - state format version 1"
    )

  // These read metrics by the names that Spark's RocksDB provider has for them.
  private val metricsOfRocksDB = Seq(
    "SPARK-51779 Restart streaming join query with virtual column families",
    "SPARK-51779 Restart the join query and changing state format versions"
  )

  // They want an error of a provider without column families.
  private val providersWithoutColumnFamilies = Seq(
    "transformWithState - streaming with hdfsStateStoreProvider should fail",
    "transformWithStateWithInitialState - streaming with hdfsStateStoreProvider should fail",
    "SPARK-51779 Join query using virtual column families with HDFS should fail"
  )

  // Our change feed tells what became of a key in a batch, and not each step to it.
  private val eachPutInTheChangeFeed = Seq(
    "read stream-stream join state change feed",
    "state data source cdf integration - list state"
  )

  // These wait for files that Spark's providers write.
  private val filesOfSparksProviders = Seq("snapshotStartBatchId with transformWithState")

  // Format 1 declares the timeout as an int and stores a long. Our stores check what they return,
  // as Spark's RocksDB provider does; the HDFS-backed one checks what it loads.
  private val timeoutsOfFormat1 = Seq(
    "flatMapGroupsWithState - initial state - processing time timeout - state format version 1"
  )

  // It keeps a row that a store has handed out over the next call. Ours use a row again, as Spark's
  // RocksDB provider does. Format 1 of a join runs inner joins only, which return no evicted rows.
  private val rowsUsedAgain =
    Seq("StreamingJoinStateManager V1 - evictAndReturnByValue returns correct rows")

  private val all = checkpointsOfSparksProviders ++ undefined ++ metricsOfRocksDB ++
    providersWithoutColumnFamilies ++ eachPutInTheChangeFeed ++ filesOfSparksProviders ++
    timeoutsOfFormat1 ++ rowsUsedAgain

  def contains(test: String): Boolean = all.exists(test.startsWith)
}
