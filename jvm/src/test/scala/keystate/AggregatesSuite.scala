package keystate

import java.sql.Timestamp
import java.time.Duration

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.expressions.{Aggregator, UserDefinedFunction}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.{Column, DataFrame, Dataset, Encoder, Encoders, Row}

import keystate.errors.KeystateException
import keystate.windows._

final case class Spread(least: Long, most: Long)

/** The difference between the greatest and the least number. */
object SpreadOf extends Aggregator[Long, Spread, Long] {
  override def zero: Spread = Spread(Long.MaxValue, Long.MinValue)
  override def reduce(buffer: Spread, n: Long): Spread =
    Spread(buffer.least.min(n), buffer.most.max(n))
  override def merge(one: Spread, other: Spread): Spread =
    Spread(one.least.min(other.least), one.most.max(other.most))
  override def finish(buffer: Spread): Long = buffer.most - buffer.least
  override def bufferEncoder: Encoder[Spread] = Encoders.product
  override def outputEncoder: Encoder[Long] = Encoders.scalaLong
}

/** Aggregates of columns in Scala. */
class AggregatesSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val late = OutputTag[Purchase]("late")
  private val seconds = TumblingEventTimeWindows.of(Duration.ofSeconds(1))
  private val sessions = EventTimeSessionWindows.withGap(Duration.ofMillis(300))
  private val spread: UserDefinedFunction = udaf(SpreadOf)

  private def bought(key: String, value: Long, millis: Long) =
    Purchase(key, value, new Timestamp(millis))

  private def onPartitions[R](number: Int)(body: => R): R =
    withSetting("spark.sql.shuffle.partitions", number.toString)(body)

  private def tuples(rows: Seq[Row]): Seq[Seq[Any]] = rows
    .map(_.toSeq.map {
      case time: Timestamp => time.getTime
      case other => other
    })
    .sortBy(_.toString)

  private def told(values: Any*): Seq[Any] = values

  /** Functions that differ only in their filters, of each kind of buffers. */
  private val filtered: Seq[Column] = Seq(
    sum($"value").as("all"),
    expr("sum(value) FILTER (WHERE value > 2)").as("great"),
    expr("sum(value) FILTER (WHERE value > 5)").as("greater"),
    size(collect_list($"value")).as("n"),
    size(expr("collect_list(value) FILTER (WHERE value > 2)")).as("few")
  )

  test("an Aggregator and its filter, of keys, over restarts with other partitions") {
    spark.udf.register("spread", spread)
    val stream = new Stream[Purchase]("aggregator")
    def build(data: Dataset[Purchase]) = data
      .keyed("key")
      .aggregate(
        spread($"value").as("spread"),
        (spread($"value") + sum($"value")).as("both"),
        expr("spread(value) FILTER (WHERE value < 10)").as("small")
      )
    assert(
      tuples(stream.run(build)(Seq(bought("a", 3, 0), bought("a", 20, 0), bought("b", 1, 0)))) ==
        Seq(told("a", 17, 40, 0), told("b", 0, 1, 0))
    )
    onPartitions(3) {
      assert(
        tuples(stream.run(build)(Seq(bought("a", 9, 0)), Seq(bought("b", 8, 0)))) ==
          Seq(told("a", 17, 49, 6), told("b", 7, 16, 7))
      )
    }
  }

  test("an Aggregator of sessions, which merges buffers") {
    val rows = Seq(bought("a", 3, 0), bought("a", 20, 500), bought("a", 5, 250), bought("b", 1, 0))
    val made = rows.toDS().keyed("key").window(sessions, "time").aggregate(spread($"value"))
    assert(tuples(made.collect().toSeq) == Seq(told("a", 0, 800, 17), told("b", 0, 300, 0)))
  }

  test("each function has its own filter") {
    val rows = (1L to 7L).map(value => bought("a", value, value * 100)).toDS().coalesce(1)
    val expected = Seq(28, 25, 13, 7, 5)
    def found(made: DataFrame) = tuples(made.collect().toSeq).map(_.takeRight(5))
    val (first, others) = (filtered.head, filtered.tail)
    val keyed = rows.keyed("key")
    assert(found(keyed.aggregate(first, others: _*)) == Seq(expected))
    // Rows that are not aggregated before the shuffle.
    assert(found(keyed.orderBy("time").aggregate(first, others: _*)) == Seq(expected))
    assert(found(keyed.window(sessions, "time").aggregate(first, others: _*)) == Seq(expected))
    assert(found(keyed.window(seconds, "time").aggregate(first, others: _*)) == Seq(expected))
  }

  test("keys that a function makes") {
    val stream = new Stream[Purchase]("keyBy")
    def build(data: Dataset[Purchase]) = data
      .keyBy(bought => (bought.key.head.toString, bought.value % 2 == 0))
      .aggregate(sum($"value").as("total"), max($"key").as("last"))
    val rows = Seq(bought("a1", 1, 0), bought("a2", 3, 0), bought("a2", 4, 0), bought("b", 5, 0))
    val found = stream.run(build)(rows.take(3), rows.drop(3))
    assert(build(rows.toDS()).columns.toSeq == Seq("_1", "_2", "total", "last"))
    assert(
      tuples(found) == Seq(
        told("a", false, 4, "a2"),
        told("a", true, 4, "a2"),
        told("b", false, 5, "b")
      )
    )
    onPartitions(5) {
      val more = stream.run(build)(Seq(bought("a3", 8, 0)))
      assert(tuples(more) == Seq(told("a", true, 12, "a3")))
    }
    val windows = rows.toDS().keyBy(_.key.length).window(seconds, "time")
    val made = windows.aggregate(sum($"value").as("total"))
    assert(made.columns.toSeq == Seq("key", "window_start", "window_end", "total"))
    assert(tuples(made.collect().toSeq) == Seq(told(1, 0, 1000, 5), told(2, 0, 1000, 8)))
  }

  test("rows that are too late for all of their windows") {
    val stream = new Stream[Purchase]("late")
    def windows(data: Dataset[Purchase]) = data
      .withWatermark("time", "0 seconds")
      .keyBy(_.key)
      .window(seconds)
      .allowedLateness(Duration.ofMillis(500))
      .sideOutputLateData(late)
      .aggregate(sum($"value").as("total"))
    val batches = Seq(
      Seq(bought("a", 1, 100)),
      Seq(bought("a", 2, 1200)),
      Seq(bought("a", 4, 900)), // late, but its window is still there
      Seq(bought("a", 8, 1700)),
      Seq(bought("a", 16, 800), bought("a", 32, 2900))
    )
    val all = stream.run(windows(_).withSideOutputs(late))(batches: _*)
    assert(all.forall(row => row.isNullAt(0) != row.isNullAt(1)))
    assert(
      tuples(all.filter(!_.isNullAt(0)).map(_.getStruct(0))) == Seq(
        told("a", 0, 1000, 1),
        told("a", 0, 1000, 5),
        told("a", 1000, 2000, 10)
      )
    )
    assert(tuples(all.filter(!_.isNullAt(1)).map(_.getStruct(1))) == Seq(told("a", 16, 800)))

    val alone = new Stream[Purchase]("late alone")
    assert(alone.run(windows(_).getSideOutput(late))(batches: _*) == Seq(bought("a", 16, 800)))
    val dropped = new Stream[Purchase]("late and dropped")
    assert(tuples(dropped.run(windows)(batches: _*)).size == 3)
    val counts = dropped.progress.flatMap(_.stateOperators)
    assert(counts.map(_.customMetrics.get("numLateRecordsDropped").longValue).sum == 1)
  }

  test("what is refused") {
    def message(code: => Any, expected: String = "KEYSTATE_DECLARATION"): String = {
      val error = intercept[KeystateException](code)
      assert(error.code == expected)
      error.getMessage
    }
    val rows = Seq(bought("a", 1, 0)).toDS()
    val keyed = rows.keyed("key")
    val windows = keyed.window(seconds, "time")
    val total = sum($"value")

    def refusesWindows(what: String)(code: => Any) = assert(
      message(code).contains(
        s"Aggregates of columns don't go with $what: give aggregate an AggregateFunction."
      )
    )
    refusesWindows("a CountTrigger")(windows.trigger(CountTrigger.of(1)).aggregate(total))
    refusesWindows("a PurgingTrigger") {
      windows.trigger(PurgingTrigger.of(EventTimeTrigger.create())).aggregate(total)
    }
    refusesWindows("an evictor")(windows.evictor(CountEvictor.of(1)).aggregate(total))
    refusesWindows("GlobalWindows")(keyed.window(GlobalWindows.create()).aggregate(total))
    refusesWindows("a PurgingTrigger")(keyed.countWindow(2).aggregate(total))
    refusesWindows("sessions whose gap each element tells") {
      val gaps = EventTimeSessionWindows.withDynamicGap((each: Purchase) => each.value)
      keyed.window(gaps, "time").aggregate(total)
    }
    assert(message(keyed.window(seconds).aggregate(total), "KEYSTATE_NO_WATERMARK").nonEmpty)

    val distinct = message(keyed.aggregate(count_distinct($"value").as("n")))
    assert(distinct.contains("'n' can't be aggregated by a key's state: DISTINCT needs all values"))
    assert(
      message(keyed.aggregate(total.as("n"), max($"value").as("N")))
        .contains("Two aggregates are named 'N': give one another name, with alias.")
    )
    assert(
      message(keyed.aggregate(total.as("KEY")))
        .contains("An aggregate is named 'KEY', as a column of the key or of the window is")
    )
    assert(message(windows.aggregate(total.as("window_end"))).contains("named 'window_end'"))
    assert(message(keyed.aggregate(lit(1).as("one"))).contains("'one' has no aggregate function"))
    assert(message(keyed.aggregate(upper($"key").as("up"))).contains("'up' has no aggregate"))
    assert(
      message(keyed.aggregate(explode(collect_list($"value"))))
        .contains("there is a function that makes rows, such as explode in it")
    )
    val ranked = sum(total).over(org.apache.spark.sql.expressions.Window.orderBy("key"))
    assert(message(keyed.aggregate(ranked)).contains("there is a window function in it"))
    val lateOutput = OutputTag[Purchase]("too late")
    assert(message(keyed.lateOutput(lateOutput).aggregate(total)).contains("no lateOutput"))
    val renamed = rows.toDF("key", "other", "time").as[(String, Long, Timestamp)]
    val ofOthers = renamed
      .keyed("key")
      .window(seconds.asInstanceOf[WindowAssigner[Any, TimeWindow]], "time")
      .sideOutputLateData(OutputTag[(String, Long, Timestamp)]("late"))
    assert(message(ofOthers.aggregate(sum($"other"))).contains("Side output 'late' takes"))
    val tagged = windows.sideOutputLateData(late).aggregate(total)
    assert(message(tagged.getSideOutput(lateOutput)).contains("Side outputs are had from"))
    assert(message(windows.aggregate(total).getSideOutput(late)).contains("Side outputs are had"))
  }
}
