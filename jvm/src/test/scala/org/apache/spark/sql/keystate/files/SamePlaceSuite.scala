package org.apache.spark.sql.keystate.files

import scala.concurrent.duration._
import scala.concurrent.{Await, ExecutionContext, Future}

import org.apache.hadoop.fs.Path
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** Names of one place by Hadoop's two interfaces. There is no cluster: nothing is called. */
class SamePlaceSuite extends AnyFunSuite with Eventually {
  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(10, Seconds), Span(5, Millis))

  private def areSame(one: String, other: String) =
    CheckpointFiles.isSamePlace(new Path(one), new Path(other))

  test("the port that a scheme has anyhow makes no difference") {
    assert(areSame("hdfs://node/user/q", "hdfs://node:8020/user/q"))
    assert(areSame("hdfs://service:8020/a#1", "hdfs://service/a#1/"))
    assert(!areSame("hdfs://node/user/q", "hdfs://node:9000/user/q"))
    assert(!areSame("hdfs://node:8020/q", "hdfs://other/q"))
    assert(!areSame("hdfs://node:8020/q", "hdfs://node/q-2"))
    assert(!areSame("hdfs://node:8020/q", "webhdfs://node/q"))
    assert(!areSame("nobody://node:8020/q", "nobody://node/q"))
    assert(!areSame("s3a://one/q", "s3a://other/q") && areSame("file:/q", "file:///q"))
  }

  test("a checkpoint is claimed by either name of it") {
    val (given, resolved) = (new Path("hdfs://node/claimed"), new Path("hdfs://node:8020/claimed/"))
    CheckpointOwner.fail(given, "this", new IllegalStateException("why"))
    Seq[() => Unit](
      () => CheckpointOwner.check(resolved),
      () => CheckpointOwner.checkBegin(resolved),
      () => CheckpointOwner.checkWrite(new Path(resolved, "commits/7"))
    ).foreach(looks => assert(intercept[IllegalStateException](looks()).getMessage == "why"))
    CheckpointOwner.check(new Path("hdfs://node:9000/claimed"))
    CheckpointOwner.release(resolved, "this")
    CheckpointOwner.check(given)
  }

  test("a query is held by either name of its checkpoint") {
    val (given, resolved) = (new Path("hdfs://node/q"), new Path("hdfs://node:8020/q"))
    def begins(batch: Int) =
      Future(CheckpointOwner.checkWrite(new Path(resolved, s"offsets/$batch")))(
        ExecutionContext.global
      )
    CheckpointOwner.limit(given, Some(3))
    Await.result(begins(3), 10.seconds)
    val fourth = begins(4)
    eventually(assert(CheckpointOwner.isWaiting(given) && CheckpointOwner.isWaiting(resolved)))
    CheckpointOwner.hold(given)
    CheckpointOwner.limit(given, None)
    assert(CheckpointOwner.isWaiting(resolved))
    CheckpointOwner.letGo(given)
    Await.result(fourth, 10.seconds)
  }
}
