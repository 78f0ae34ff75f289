package org.apache.spark.sql.keystate.suites

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.scalatest.tags.Slow

import org.apache.spark.SparkConf
import org.apache.spark.sql.execution.datasources.v2.state._
import org.apache.spark.sql.execution.streaming._
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

import keystate.settings.Settings
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

// Spark's own suites of what lies between its operators and a store, on our provider.

@Slow class KeystateJoinStateManagerSuite extends SymmetricHashJoinStateManagerSuite with OnKeystate
@Slow class KeystateJoinStateManagerEventTimeInKeySuite
    extends SymmetricHashJoinStateManagerEventTimeInKeySuite
    with OnKeystate
@Slow class KeystateJoinStateManagerEventTimeInValueSuite
    extends SymmetricHashJoinStateManagerEventTimeInValueSuite
    with OnKeystate
@Slow class KeystateAggregationStateManagerSuite
    extends StreamingAggregationStateManagerSuite
    with OnKeystate
@Slow class KeystateSessionWindowStateManagerSuite
    extends StreamingSessionWindowStateManagerSuite
    with OnKeystate
@Slow class KeystateSessionWindowIteratorSuite
    extends MergingSortWithSessionWindowStateIteratorSuite
    with OnKeystate
@Slow class KeystateFlatMapGroupsHelperSuite
    extends FlatMapGroupsWithStateExecHelperSuite
    with OnKeystate
@Slow class KeystateOperatorMetadataSuite extends OperatorStateMetadataSuite with OnKeystate

// The state variables of transformWithState.

@Slow class KeystateValueStateSuite extends ValueStateSuite with StateVariablesOnKeystate
@Slow class KeystateListStateSuite extends ListStateSuite with StateVariablesOnKeystate
@Slow class KeystateMapStateSuite extends MapStateSuite with StateVariablesOnKeystate
@Slow class KeystateTimerSuite extends TimerSuite with StateVariablesOnKeystate
@Slow class KeystateStatefulProcessorHandleSuite
    extends StatefulProcessorHandleSuite
    with StateVariablesOnKeystate

// The statestore source.

@Slow class KeystateStateDataSourceSuite extends StateDataSourceReadSuite with ReadsOnKeystate
@Slow class KeystateStateDataSourceV2Suite
    extends StateDataSourceReadSuite
    with ReadsOnKeystate
    with CheckpointFormat2
@Slow class KeystateChangeFeedSuite
    extends StateDataSourceChangeDataReaderSuite
    with ChangeFeedOnKeystate
@Slow class KeystateChangeFeedV2Suite
    extends StateDataSourceChangeDataReaderSuite
    with ChangeFeedOnKeystate
    with CheckpointFormat2
@Slow class KeystateStateDataSourceNegativeSuite
    extends StateDataSourceNegativeTestSuite
    with OnKeystate
@Slow class KeystateStateDataSourceSQLConfigSuite
    extends StateDataSourceSQLConfigSuite
    with OnKeystate
@Slow class KeystateStateDataSourceNoEmptyDirSuite
    extends StateDataSourceNoEmptyDirCreationSuite
    with OnKeystate
@Slow class KeystateStateDataSourceTransformWithStateSuite
    extends StateDataSourceTransformWithStateSuite
    with OnKeystate
@Slow class KeystateStateDataSourceTransformWithStateV2Suite
    extends StateDataSourceTransformWithStateSuiteCheckpointV2
    with OnKeystate
@Slow class KeystateStateDataSourceTransformWithStateChecksumSuite
    extends StateDataSourceTransformWithStateSuiteWithRowChecksum
    with OnKeystate

trait CheckpointFormat2 extends OnKeystate {
  override protected def sparkConf: SparkConf =
    super.sparkConf.set(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, "2")
}

trait ChangeFeedOnKeystate extends StateDataSourceChangeDataReaderSuite with OnKeystate {
  override protected def newStateStoreProvider(): StateStoreProvider =
    new KeyGroupStateStoreProvider
}

/** What Spark's suites for its own providers add. Their checkpoints with snapshots are left out. */
trait ReadsOnKeystate extends StateDataSourceReadSuite with OnKeystate {
  override protected def newStateStoreProvider(): StateStoreProvider =
    new KeyGroupStateStoreProvider

  test("provider.getReadStore(snapshotVersion, endVersion)")(testGetReadStoreWithStartVersion())
  test("option snapshotPartitionId")(testSnapshotPartitionId())
  test("snapshotStartBatchId on join state v3")(testSnapshotOnJoinStateV3())
  test("snapshotStartBatchId on join state v4")(testSnapshotOnJoinStateV4())
}

/** These suites name Spark's RocksDB provider by its type. */
trait StateVariablesOnKeystate extends StateVariableSuiteBase with OnKeystate {
  override protected def newStoreProviderWithStateVariable(
      storeId: StateStoreId,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      sqlConf: SQLConf,
      conf: Configuration,
      useColumnFamilies: Boolean,
      schemaProvider: Option[StateSchemaProvider]
  ): RocksDBStateStoreProvider = {
    conf.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID.toString)
    conf.set(Settings.Backend.key, backend)
    val provider = new ProviderInDisguise
    provider.init(
      storeId,
      schemaForKeyRow,
      schemaForValueRow,
      keyStateEncoderSpec,
      useColumnFamilies,
      new StateStoreConf(sqlConf),
      conf,
      useMultipleValuesPerKey,
      schemaProvider.orElse(Some(new TestStateSchemaProvider))
    )
    provider
  }
}

/** Our provider where a method of Spark's tests has its RocksDB provider as the result's type. */
private final class ProviderInDisguise extends RocksDBStateStoreProvider {
  private val provider = new KeyGroupStateStoreProvider

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConfs: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = provider.init(
    stateStoreId,
    keySchema,
    valueSchema,
    keyStateEncoderSpec,
    useColumnFamilies,
    storeConfs,
    hadoopConf,
    useMultipleValuesPerKey,
    stateSchemaProvider
  )

  override def stateStoreId: StateStoreId = provider.stateStoreId
  override def getStore(
      version: Long,
      id: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = provider.getStore(version, id, forceSnapshotOnCommit, loadEmpty)
  override def getReadStore(version: Long, id: Option[String]): StateStore =
    provider.getReadStore(version, id)
  override def doMaintenance(): Unit = provider.doMaintenance()
  override def close(): Unit = provider.close()
}
