package org.apache.spark.sql.keystate.suites

import org.scalatest.tags.Slow

import org.apache.spark.sql.execution.datasources.v2.state._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streaming._

// Spark's own suites that only this line has, on our provider.

@Slow class KeystateJoinStateManagerEventTimeInKeySuite
    extends SymmetricHashJoinStateManagerEventTimeInKeySuite
    with OnKeystate
@Slow class KeystateJoinStateManagerEventTimeInValueSuite
    extends SymmetricHashJoinStateManagerEventTimeInValueSuite
    with OnKeystate
@Slow class KeystateStateDataSourceNoEmptyDirSuite
    extends StateDataSourceNoEmptyDirCreationSuite
    with OnKeystate

@Slow class KeystateInnerJoin2Suite extends StreamingInnerJoinWithoutVCFSuite with OnKeystate
@Slow class KeystateInnerJoin3Suite extends StreamingInnerJoinWithVCFSuite with OnKeystate
@Slow class KeystateInnerJoin4Suite extends StreamingInnerJoinV4Suite with OnKeystate
@Slow class KeystateOuterJoin2Suite extends StreamingOuterJoinWithoutVCFSuite with OnKeystate
@Slow class KeystateOuterJoin3Suite extends StreamingOuterJoinWithVCFSuite with OnKeystate
@Slow class KeystateOuterJoin4Suite extends StreamingOuterJoinV4Suite with OnKeystate
@Slow class KeystateFullOuterJoin2Suite
    extends StreamingFullOuterJoinWithoutVCFSuite
    with OnKeystate
@Slow class KeystateFullOuterJoin3Suite extends StreamingFullOuterJoinWithVCFSuite with OnKeystate
@Slow class KeystateFullOuterJoin4Suite extends StreamingFullOuterJoinV4Suite with OnKeystate
@Slow class KeystateLeftSemiJoin2Suite extends StreamingLeftSemiJoinWithoutVCFSuite with OnKeystate
@Slow class KeystateLeftSemiJoin3Suite extends StreamingLeftSemiJoinWithVCFSuite with OnKeystate
@Slow class KeystateLeftSemiJoin4Suite extends StreamingLeftSemiJoinV4Suite with OnKeystate

// With row checksums.
@Slow class KeystateTransformWithListStateChecksumSuite
    extends TransformWithListStateSuiteWithRowChecksum
    with OnKeystate
@Slow class KeystateTransformWithMapStateChecksumSuite
    extends TransformWithMapStateSuiteWithRowChecksum
    with OnKeystate
@Slow class KeystateStateDataSourceTransformWithStateChecksumSuite
    extends StateDataSourceTransformWithStateSuiteWithRowChecksum
    with OnKeystate

/** Joins by the formats of state that the line has. */
trait ReadsOfJoins extends StateDataSourceReadSuite {
  test("snapshotStartBatchId on join state v3")(testSnapshotOnJoinStateV3())
  test("snapshotStartBatchId on join state v4")(testSnapshotOnJoinStateV4())
}
