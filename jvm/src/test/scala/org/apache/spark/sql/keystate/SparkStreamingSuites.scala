package org.apache.spark.sql.keystate

import org.scalatest.Tag

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.test.SharedSparkSession

/** Spark's own suites of stateful operators, on our provider. */
trait OnKeystate extends SharedSparkSession {
  override protected def sparkConf: SparkConf =
    super.sparkConf.set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, KeystateErrors.ProviderClass)
}

class KeystateAggregationSuite extends StreamingAggregationSuite with OnKeystate
class KeystateDeduplicationSuite extends StreamingDeduplicationSuite with OnKeystate
class KeystateDeduplicationWithinWatermarkSuite
    extends StreamingDeduplicationWithinWatermarkSuite
    with OnKeystate
class KeystateSessionWindowSuite extends StreamingSessionWindowSuite with OnKeystate
class KeystateFlatMapGroupsSuite extends FlatMapGroupsWithStateSuite with OnKeystate

/** The join suites name a provider in each test; this one is the innermost. */
trait JoinsOnKeystate extends StreamingJoinSuite {
  override def testWithVirtualColumnFamilyJoins(name: String, tags: Tag*)(body: => Any): Unit =
    super.testWithVirtualColumnFamilyJoins(name, tags: _*)(onKeystate(body))

  override def testWithoutVirtualColumnFamilyJoins(name: String, tags: Tag*)(body: => Any): Unit =
    super.testWithoutVirtualColumnFamilyJoins(name, tags: _*)(onKeystate(body))

  private def onKeystate(body: => Any): Any =
    withSQLConf(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> KeystateErrors.ProviderClass)(body)
}

trait StateFormat2 extends JoinsOnKeystate {
  override protected def testMode: Mode = Mode.WithoutVCF
}
trait StateFormat3 extends JoinsOnKeystate {
  override protected def testMode: Mode = Mode.WithVCF
}

class KeystateInnerJoin2Suite extends StreamingInnerJoinSuite with StateFormat2
class KeystateInnerJoin3Suite extends StreamingInnerJoinSuite with StateFormat3
class KeystateInnerJoin4Suite extends StreamingInnerJoinV4Suite with JoinsOnKeystate
class KeystateOuterJoin2Suite extends StreamingOuterJoinSuite with StateFormat2
class KeystateOuterJoin3Suite extends StreamingOuterJoinSuite with StateFormat3
class KeystateOuterJoin4Suite extends StreamingOuterJoinV4Suite with JoinsOnKeystate
class KeystateFullOuterJoin4Suite extends StreamingFullOuterJoinV4Suite with JoinsOnKeystate
class KeystateLeftSemiJoin4Suite extends StreamingLeftSemiJoinV4Suite with JoinsOnKeystate
