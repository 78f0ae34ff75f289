package org.apache.spark.sql.keystate.suites

import java.nio.file.Paths
import java.sql.Timestamp

import scala.concurrent.duration._

import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streaming._
import org.apache.spark.sql.{Dataset, Encoders}

import keystate.SessionFixture
import org.apache.spark.sql.keystate.store.LoadedStores

case class At(key: String, x: Long, time: Timestamp)

/** One state of each kind, and a timer for each value. */
class Told extends StatefulProcessor[String, At, String] {
  @transient private var count: ValueState[Long] = _
  @transient private var all: ListState[Long] = _
  @transient private var byRest: MapState[Long, Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val long = Encoders.scalaLong
    count = getHandle.getValueState("count", long, TTLConfig.NONE)
    all = getHandle.getListState("all", long, TTLConfig.NONE)
    byRest = getHandle.getMapState("byRest", long, long, TTLConfig.NONE)
  }

  override def handleInputRows(
      key: String,
      rows: Iterator[At],
      timers: TimerValues
  ): Iterator[String] = {
    rows.foreach { row =>
      count.update((if (count.exists()) count.get() else 0L) + 1)
      all.appendValue(row.x)
      val rest = row.x % 3
      byRest.updateValue(rest, (if (byRest.containsKey(rest)) byRest.getValue(rest) else 0L) + 1)
      getHandle.registerTimer(row.time.getTime + 1000)
    }
    Iterator(s"$key ${count.get()} ${all.get().toList.sorted} ${byRest.iterator().toList.sorted}")
  }

  override def handleExpiredTimer(
      key: String,
      timers: TimerValues,
      timer: ExpiredTimerInfo
  ): Iterator[String] = Iterator(s"$key timer ${timer.getExpiryTimeInMs() / 1000}")
}

/** Spark's own operators, in Scala: transformWithState keeps its state and timers over rescales. */
class SparkOperatorsSuite extends AnyFunSuite with SessionFixture {

  test("state of each kind and timers") {
    val session = spark
    import session.implicits._

    def told(rows: Dataset[At]): Dataset[String] = rows
      .withWatermark("time", "0 seconds")
      .as[At]
      .groupByKey(_.key)
      .transformWithState(new Told, TimeMode.EventTime(), OutputMode.Append())

    val batches = Seq(1 to 30, 31 to 60, 61 to 90).map(_.map { i =>
      At(s"key-${i % 7}", i.toLong, new Timestamp(i * 1000L))
    })
    withSetting("spark.sql.streaming.stateStore.checkpointFormatVersion", "2") {
      val stream = new Stream[At]("transform")
      val emitted = batches.zip(Seq(2, 5, 3)).flatMap { case (batch, partitions) =>
        withSetting("spark.sql.shuffle.partitions", s"$partitions")(stream.run(told)(batch))
      }
      val results = for {
        (batch, i) <- batches.zipWithIndex
        key <- batch.map(_.key).distinct
      } yield {
        val seen = batches.take(i + 1).flatten.filter(_.key == key).map(_.x)
        val rests = seen.groupBy(_ % 3).toSeq.map { case (rest, of) => rest -> of.size.toLong }
        s"$key ${seen.size} ${seen.sorted.toList} ${rests.sorted.toList}"
      }
      // A watermark that has reached a timer fires it.
      val timers = (1 to 89).map(i => s"key-${i % 7} timer ${i + 1}")
      assert(emitted.sorted == (results ++ timers).sorted)
    }
  }

  test("Spark hears of new versions as of snapshots, and so does not warn that they lag") {
    val session = spark
    import session.implicits._

    withSetting("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2") {
      val stream = new Stream[Long]("snapshots")
      val query = stream.toDS
        .groupBy("value")
        .count()
        .writeStream
        .outputMode("update")
        .option("checkpointLocation", stream.checkpoint)
        .format("noop")
        .start()
      try {
        (1L to 4L).foreach { value =>
          stream.feed(Seq(value))
          query.processAllAvailable()
        }
        assert(LoadedStores.snapshots(query.runId) == Seq(Some(3L), Some(3L)))
      } finally query.stop()
    }
  }

  test("Spark's own thread does the maintenance while a query runs") {
    val session = spark
    import session.implicits._

    LoadedStores.unload() // so that the thread begins anew, with this interval
    withSetting("spark.sql.streaming.stateStore.maintenanceInterval", "100ms") {
      withSetting("spark.sql.streaming.minBatchesToRetain", "2") {
        val stream = new Stream[Long]("maintained")
        val query = stream.toDS
          .groupBy("value")
          .count()
          .writeStream
          .outputMode("update")
          .option("checkpointLocation", stream.checkpoint)
          .format("noop")
          .start()
        try {
          (1L to 6L).foreach { value =>
            stream.feed(Seq(value))
            query.processAllAvailable()
          }
          val files = Paths.get(stream.checkpoint, "state", "0", "0").toFile
          eventually(timeout(30.seconds), interval(100.millis)) {
            val versions = files.list().toSeq.filter(_.endsWith(".keystate")).map(_.head)
            assert(versions.contains('6') && !versions.contains('1'), versions)
          }
        } finally query.stop()
      }
    }
    LoadedStores.unload()
  }

  test("stores that Spark unloads after each commit") {
    val session = spark
    import session.implicits._

    LoadedStores.unload()
    withSetting("spark.sql.streaming.stateStore.unloadOnCommit", "true") {
      val counts = new Stream[Long]("unloaded")
        .run(_.groupBy("value").count().as[(Long, Long)], "update")(Seq(1L, 2L), Seq(2L))
      assert(counts.sorted == Seq((1L, 1L), (2L, 1L), (2L, 2L)))
    }
    assert(LoadedStores.backends.isEmpty)
  }
}
