package org.apache.spark.sql.keystate.suites

import org.scalatest.tags.Slow

import org.apache.spark.sql.execution.datasources.v2.state._
import org.apache.spark.sql.streaming._

// Spark's own suites that only this line has, on our provider. Each joins with all formats of state.

@Slow class KeystateInnerJoinSuite extends StreamingInnerJoinSuite with OnKeystate
@Slow class KeystateOuterJoinSuite extends StreamingOuterJoinSuite with OnKeystate
@Slow class KeystateFullOuterJoinSuite extends StreamingFullOuterJoinSuite with OnKeystate
@Slow class KeystateLeftSemiJoinSuite extends StreamingLeftSemiJoinSuite with OnKeystate

/** Joins by the formats of state that the line has. */
trait ReadsOfJoins extends StateDataSourceReadSuite {
  test("snapshotStartBatchId on join state v3")(testSnapshotOnJoinStateV3())
}
