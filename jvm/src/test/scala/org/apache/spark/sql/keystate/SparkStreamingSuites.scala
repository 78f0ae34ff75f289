package org.apache.spark.sql.keystate

import org.scalactic.source.Position
import org.scalatest.Tag
import org.scalatest.tags.Slow

import org.apache.spark.{SparkConf, SparkFunSuite}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.test.SharedSparkSession

/** Tests of Spark's own suites that are left out, and why. */
trait LeavesOut extends SparkFunSuite {
  // Functions, for tests are registered while the base class is constructed.

  private def checkpointsOfSparksProviders = Seq(
    "simple count, update mode - recovery from checkpoint uses state format version 1",
    "SPARK-39650: recovery from checkpoint",
    "SPARK-26187 restore the stream-stream",
    "SPARK-48687 - restore the stream-stream"
  )

  // With all checks off a row is read by a wrong schema, and the test wants that to fail in some
  // way. It does with the HDFS-backed provider, and does not with Spark's RocksDB one.
  private def undefined =
    Seq(
      "changing schema of state when restarting query - schema check off - state format version 1"
    )

  // These read metrics by the names that Spark's RocksDB provider has for them.
  private def metricsOfRocksDB = Seq(
    "SPARK-51779 Restart streaming join query with virtual column families",
    "SPARK-51779 Restart the join query and changing state format versions"
  )

  protected def leftOut(name: String): Boolean =
    (checkpointsOfSparksProviders ++ undefined ++ metricsOfRocksDB).exists(name.startsWith)
}

/** Spark's own suites of stateful operators, on our provider. */
trait OnKeystate extends SharedSparkSession with LeavesOut {
  override protected def sparkConf: SparkConf =
    super.sparkConf.set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, KeystateErrors.ProviderClass)

  override protected def test(name: String, tags: Tag*)(body: => Any)(implicit
      position: Position
  ): Unit = if (!leftOut(name)) super.test(name, tags: _*)(body)
}

@Slow class KeystateAggregationSuite extends StreamingAggregationSuite with OnKeystate
@Slow class KeystateDeduplicationSuite extends StreamingDeduplicationSuite with OnKeystate
@Slow class KeystateDeduplicationWithinWatermarkSuite
    extends StreamingDeduplicationWithinWatermarkSuite
    with OnKeystate
@Slow class KeystateSessionWindowSuite extends StreamingSessionWindowSuite with OnKeystate
@Slow class KeystateFlatMapGroupsSuite extends FlatMapGroupsWithStateSuite with OnKeystate

/** The join suites name a provider in each test; this one is the innermost. */
trait JoinsOnKeystate extends StreamingJoinSuite with LeavesOut {
  override def testWithVirtualColumnFamilyJoins(name: String, tags: Tag*)(body: => Any): Unit =
    if (!leftOut(name)) super.testWithVirtualColumnFamilyJoins(name, tags: _*)(onKeystate(body))

  override def testWithoutVirtualColumnFamilyJoins(name: String, tags: Tag*)(body: => Any): Unit =
    if (!leftOut(name)) super.testWithoutVirtualColumnFamilyJoins(name, tags: _*)(onKeystate(body))

  private def onKeystate(body: => Any): Any =
    withSQLConf(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> KeystateErrors.ProviderClass)(body)
}

trait StateFormat2 extends JoinsOnKeystate {
  override protected def testMode: Mode = Mode.WithoutVCF
}
trait StateFormat3 extends JoinsOnKeystate {
  override protected def testMode: Mode = Mode.WithVCF
}

@Slow class KeystateInnerJoin2Suite extends StreamingInnerJoinSuite with StateFormat2
@Slow class KeystateInnerJoin3Suite extends StreamingInnerJoinSuite with StateFormat3
@Slow class KeystateInnerJoin4Suite extends StreamingInnerJoinV4Suite with JoinsOnKeystate
@Slow class KeystateOuterJoin2Suite extends StreamingOuterJoinSuite with StateFormat2
@Slow class KeystateOuterJoin3Suite extends StreamingOuterJoinSuite with StateFormat3
@Slow class KeystateOuterJoin4Suite extends StreamingOuterJoinV4Suite with JoinsOnKeystate
@Slow class KeystateFullOuterJoin4Suite extends StreamingFullOuterJoinV4Suite with JoinsOnKeystate
@Slow class KeystateLeftSemiJoin4Suite extends StreamingLeftSemiJoinV4Suite with JoinsOnKeystate
