package org.apache.spark.sql.keystate.suites

import org.scalatest.tags.Slow

import org.apache.spark.SparkConf
import org.apache.spark.sql.execution.datasources.v2.state._
import org.apache.spark.sql.execution.streaming._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf

import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

// Spark's own suites of what lies between its operators and a store, on our provider.

@Slow class KeystateJoinStateManagerSuite extends SymmetricHashJoinStateManagerSuite with OnKeystate
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

@Slow class KeystateStateDataSourceSuite extends ReadsOnKeystate
@Slow class KeystateStateDataSourceV2Suite extends ReadsOnKeystate with CheckpointFormat2
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
@Slow class KeystateStateDataSourceTransformWithStateSuite
    extends StateDataSourceTransformWithStateSuite
    with OnKeystate
@Slow class KeystateStateDataSourceTransformWithStateV2Suite
    extends StateDataSourceTransformWithStateSuiteCheckpointV2
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
trait ReadsOnKeystate extends ReadsOfJoins with OnKeystate {
  override protected def newStateStoreProvider(): StateStoreProvider =
    new KeyGroupStateStoreProvider

  test("provider.getReadStore(snapshotVersion, endVersion)")(testGetReadStoreWithStartVersion())
  test("option snapshotPartitionId")(testSnapshotPartitionId())
}
