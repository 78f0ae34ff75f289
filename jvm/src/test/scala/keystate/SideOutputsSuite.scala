package keystate

import java.sql.Timestamp

import scala.collection.mutable.ArrayBuffer

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate.errors.KeystateException

final case class Reading(key: Long, value: Long, at: Timestamp)
final case class Reject(key: Long, reason: String)
final case class Limit(name: String, value: Long)

object SideOutputs {
  val rejects: OutputTag[Reject] = OutputTag("rejects")
  val odd: OutputTag[Long] = OutputTag("odd numbers")
  val late: OutputTag[Reading] = OutputTag("late")
  val fired: OutputTag[String] = OutputTag("fired")
  val limits = MapStateDescriptor[String, Long]("limits")
}

/** Counts the readings of a key; rejects those over 3, and tells of odd ones. */
class Checked extends KeyedProcessFunction[Long, Reading, (Long, Long)] {
  @transient private var n: ValueState[Long] = _

  override def open(ctx: RuntimeContext): Unit = n = ctx.getState(ValueStateDescriptor("n", 0L))

  override def processElement(
      reading: Reading,
      ctx: Context,
      out: Collector[(Long, Long)]
  ): Unit = {
    n.update(n.value() + 1)
    if (reading.value > 3)
      ctx.output(SideOutputs.rejects, Reject(reading.key, s"${reading.value} is over 3"))
    out.collect((reading.key, n.value()))
    if (reading.value % 2 == 1) ctx.output(SideOutputs.odd, reading.value)
    if (ctx.timestamp() != null) ctx.timerService().registerEventTimeTimer(ctx.timestamp() + 1)
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[(Long, Long)]): Unit =
    ctx.output(SideOutputs.fired, s"${ctx.getCurrentKey} $time")
}

class Limited extends KeyedBroadcastProcessFunction[Long, Reading, Limit, Long] {
  override def processElement(reading: Reading, ctx: ReadOnlyContext, out: Collector[Long]): Unit =
    if (reading.value <= ctx.getBroadcastState(SideOutputs.limits).get("most"))
      out.collect(reading.value)
    else ctx.output(SideOutputs.rejects, Reject(reading.key, s"${reading.value}"))

  override def processBroadcastElement(limit: Limit, ctx: Context, out: Collector[Long]): Unit = {
    ctx.getBroadcastState(SideOutputs.limits).put(limit.name, limit.value)
    ctx.output(SideOutputs.fired, limit.name)
  }
}

class Both extends KeyedCoProcessFunction[Long, Reading, Reading, String] {
  override def processElement1(value: Reading, ctx: Context, out: Collector[String]): Unit = {
    out.collect(s"first ${value.value}")
    ctx.output(SideOutputs.odd, value.value)
  }
  override def processElement2(value: Reading, ctx: Context, out: Collector[String]): Unit =
    ctx.output(SideOutputs.rejects, Reject(value.key, "second"))
}

class SideOutputsSuite extends AnyFunSuite with SessionFixture {
  import SideOutputs._
  import spark.implicits._

  private def at(millis: Long) = new Timestamp(millis)
  private def reading(key: Long, value: Long, time: Long = 0) = Reading(key, value, at(time))

  private val batch = Seq(reading(1, 3), reading(1, 5), reading(2, 8), reading(2, 2))

  private def checked(data: Dataset[Reading]) = data.keyBy(_.key).process(new Checked)

  test("of a batch, each by itself and all of one run") {
    val result = checked(batch.toDS().coalesce(1))
    assert(result.collect().toSet == Set((1L, 1L), (1L, 2L), (2L, 1L), (2L, 2L)))
    assert(
      result.getSideOutput(rejects).collect().toSet ==
        Set(Reject(1, "5 is over 3"), Reject(2, "8 is over 3"))
    )
    assert(result.getSideOutput(odd).collect().toSeq.sorted == Seq(3L, 5L))
    val all = result.withSideOutputs(odd, rejects)
    assert(all.columns.toSeq == Seq("main", "odd numbers", "rejects"))
    val rows = all.collect()
    assert(rows.forall(row => (0 until 3).count(!row.isNullAt(_)) == 1))
    assert((0 until 3).map(i => rows.count(!_.isNullAt(i))) == Seq(4, 2, 2))
    // In the order in which they were emitted.
    val ofOne = rows.filter(row => row.toString.contains("5") || row.toString.contains("[1,2]"))
    assert(ofOne.map(row => (0 until 3).indexWhere(!row.isNullAt(_))).toSeq == Seq(2, 0, 1))
  }

  test("of a stream, over restarts with other partitions; timers") {
    val stream = new Stream[Reading]("checked")
    def run(tag: OutputTag[String], partitions: Int)(rows: Reading*): Seq[String] =
      withSetting("spark.sql.shuffle.partitions", partitions.toString) {
        stream
          .run(data => checked(data.withWatermark("at", "0 seconds")).getSideOutput(tag))(rows)
          .sorted
      }
    assert(run(fired, 2)(reading(1, 1, 10), reading(2, 2, 20)) == Seq("1 11"))
    assert(run(fired, 5)(reading(1, 1, 30)) == Seq("2 21"))
    val counts =
      stream.run(data => checked(data.withWatermark("at", "0 seconds")))(Seq(reading(1, 1, 50)))
    assert(counts == Seq((1L, 3L)))
  }

  test("of functions of broadcast elements and of two inputs") {
    val limited = batch
      .toDS()
      .coalesce(1)
      .keyBy(_.key)
      .connect(Seq(Limit("most", 4)).toDS().broadcast(limits))
      .process(new Limited)
    assert(limited.collect().toSeq.sorted == Seq(2L, 3L))
    assert(limited.getSideOutput(rejects).collect().toSet == Set(Reject(1, "5"), Reject(2, "8")))
    assert(limited.getSideOutput(fired).collect().toSet == Set("most"))
    val both = batch
      .toDS()
      .keyBy(_.key)
      .connect(Seq(reading(7, 1)).toDS().keyBy(_.key))
      .process(new Both)
    assert(both.getSideOutput(odd).collect().toSeq.sorted == Seq(2L, 3L, 5L, 8L))
    assert(both.getSideOutput(rejects).collect().toSeq == Seq(Reject(7, "second")))
    assert(both.count() == 4)
  }

  test("late rows") {
    val stream = new Stream[Reading]("late")
    def result(data: Dataset[Reading]) =
      data.withWatermark("at", "0 seconds").keyBy(_.key).lateOutput(late).process(new Checked)
    val found = stream.run(result(_).getSideOutput(late))(
      Seq(reading(1, 1, 100)),
      Seq(reading(1, 2, 200)),
      Seq(reading(1, 3, 90), reading(2, 4, 100), reading(1, 5, 250))
    )
    assert(found.sortBy(_.value) == Seq(reading(1, 3, 90), reading(2, 4, 100)))
    // Without the late rows.
    assert(stream.run(result)(Seq(reading(1, 1, 300))).toSet == Set((1L, 4L)))
  }

  test("late rows of a stream without keys") {
    val stream = new Stream[Reading]("late, without keys")
    def result(data: Dataset[Reading]) = data
      .withWatermark("at", "0 seconds")
      .stream
      .timeMode("event_time")
      .lateOutput(late)
      .filter((_: Reading) => true)
    val found = stream.run(result(_).getSideOutput(late))(
      Seq(reading(1, 1, 100)),
      Seq(reading(1, 2, 200)),
      Seq(reading(1, 3, 90), reading(1, 5, 250))
    )
    assert(found == Seq(reading(1, 3, 90)))
  }

  test("late rows of two inputs") {
    val first = new Stream[Reading]("first")
    val second = new Stream[Reading]("second")
    val lateToo: OutputTag[Reading] = OutputTag("late too")
    def result(data: Dataset[Reading]) = data
      .withWatermark("at", "0 seconds")
      .keyBy(_.key)
      .lateOutput(late)
      .connect(second.toDS.withWatermark("at", "0 seconds").keyBy(_.key).lateOutput(lateToo))
      .process(new Both)
    def run(ofFirst: Reading*)(ofSecond: Reading*) = {
      second.feed(ofSecond)
      first.feed(ofFirst)
      first.run(result(_).withSideOutputs(late, lateToo))(Nil)
    }
    run(reading(1, 1, 100))(reading(1, 1, 100))
    run(reading(1, 1, 200))(reading(1, 1, 200))
    val rows = run(reading(1, 2, 50), reading(1, 3, 250))(reading(3, 4, 60), reading(2, 5, 260))
    assert(rows.filter(!_.isNullAt(1)).map(_.getStruct(1).getLong(1)) == Seq(2L))
    assert(rows.filter(!_.isNullAt(2)).map(_.getStruct(2).getLong(1)) == Seq(4L))
    assert(rows.count(!_.isNullAt(0)) == 1)
  }

  test("several outputs of one run") {
    val stream = new Stream[Reading]("written")
    val written = ArrayBuffer.empty[(String, Long, Any)]
    val query = checked(stream.toDS)
      .writeOutputs((counts, id) => counts.collect().foreach(c => written += (("main", id, c))))(
        rejects.writtenBy((rows, id) => rows.collect().foreach(r => written += (("no", id, r)))),
        odd.writtenBy((_, id) => written += (("odd", id, "unread")))
      )
      .option("checkpointLocation", stream.checkpoint)
      .start()
    try
      Seq(Seq(reading(1, 3)), Seq(reading(1, 5))).foreach { rows =>
        stream.feed(rows)
        query.processAllAvailable()
      }
    finally query.stop()
    assert(
      written.toSeq == Seq(
        ("main", 0L, (1L, 1L)),
        ("odd", 0L, "unread"),
        ("main", 1L, (1L, 2L)),
        ("no", 1L, Reject(1, "5 is over 3")),
        ("odd", 1L, "unread")
      )
    )
  }

  test("the main output alone, which is no struct") {
    val stream = new Stream[Reading]("alone")
    val written = ArrayBuffer.empty[String]
    val query = stream.toDS
      .keyBy(_.key)
      .map((reading: Reading) => s"${reading.value}")
      .writeOutputs((values, _) => values.collect().foreach(written += _))()
      .option("checkpointLocation", stream.checkpoint)
      .start()
    stream.feed(Seq(reading(1, 3), reading(2, 4)))
    try query.processAllAvailable()
    finally query.stop()
    assert(written.sorted == Seq("3", "4"))
  }

  test("what is wrong") {
    def message(code: => Any): String = {
      val error = intercept[KeystateException](code)
      assert(error.code == "KEYSTATE_DECLARATION")
      error.getMessage
    }
    val data = batch.toDS()
    val result = checked(data)
    assert(message(data.getSideOutput(odd)).contains("that process returned"))
    assert(message(result.filter(_._1 > 0).getSideOutput(odd)).contains("this one is of"))
    assert(message(result.withSideOutputs(odd, OutputTag[Int]("ODD numbers"))).contains("Two out"))
    assert(message(result.getSideOutput(OutputTag[Int]("Main"))).contains("Two outputs are named"))
    assert(message(result.getSideOutput(OutputTag[Int](""))).contains("needs a name"))
    assert(message(result.writeOutputs((_, _) => ())()).contains("needs a stream"))
    assert(result.withSideOutputs().columns.toSeq == Seq("main"))
    val renamed = data.withColumnRenamed("value", "other").as[(Long, Long, Timestamp)]
    val tag: OutputTag[(Long, Long, Timestamp)] = OutputTag("late")
    val identity: FlatMapFunction[(Long, Long, Timestamp), Long] = (value, out) => out.collect(1L)
    assert(
      message(renamed.keyed("key").lateOutput(tag).flatMap(identity)).contains("late rows are")
    )
  }
}
