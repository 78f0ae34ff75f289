package keystate.windows

import java.sql.Timestamp
import java.time.Duration

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Dataset}

import keystate._
import keystate.errors.KeystateException
import keystate.stream.{Windowed, WindowedStream}

/** Fires for a window's first element and when the watermark passes its end; has all hooks. */
class FirstThenLast extends Trigger[Purchase, TimeWindow] {
  private val seen = ValueStateDescriptor("seen", false)
  private val values = ListStateDescriptor[Long]("values")
  @transient private var seenState: ValueState[Boolean] = _

  override def open(states: KeyedStateStore): Unit = {
    seenState = states.getState(seen)
    states.getListState(values)
    ()
  }

  override def onElement(
      element: Purchase,
      timestamp: Long,
      window: TimeWindow,
      ctx: TriggerContext
  ): TriggerResult = {
    ctx.getPartitionedState(values).add(element.value)
    ctx.registerEventTimeTimer(window.maxTimestamp)
    if (seenState.value()) TriggerResult.CONTINUE
    else {
      seenState.update(true)
      TriggerResult.FIRE
    }
  }

  override def onEventTime(time: Long, window: TimeWindow, ctx: TriggerContext): TriggerResult =
    if (ctx.getPartitionedState(values).get().size > 1) TriggerResult.FIRE_AND_PURGE
    else TriggerResult.PURGE

  override def onProcessingTime(
      time: Long,
      window: TimeWindow,
      ctx: TriggerContext
  ): TriggerResult = TriggerResult.CONTINUE

  override def canMerge: Boolean = true

  override def onMerge(window: TimeWindow, ctx: OnMergeContext): Unit = {
    ctx.mergePartitionedState(values)
    ctx.registerEventTimeTimer(window.maxTimestamp)
    seenState.update(true)
  }

  override def clear(window: TimeWindow, ctx: TriggerContext): Unit = {
    seenState.clear()
    ctx.getPartitionedState(values).clear()
    ctx.deleteEventTimeTimer(window.maxTimestamp)
  }
}

/** How often a window and a key have fired, and for how many values, each once. */
class Counting
    extends ProcessWindowFunction[Purchase, (String, Long, Long, Int), String, TimeWindow] {
  private val add: ReduceFunction[Long] = _ + _
  private val fired = ReducingStateDescriptor("fired", add)
  private val values = MapStateDescriptor[Long, Boolean]("values")
  @transient private var inWindow: ReducingState[Long] = _

  override def open(context: WindowRuntimeContext): Unit = {
    inWindow = context.windowState.getReducingState(fired)
    context.windowState.getMapState(values)
    context.globalState.getReducingState(fired)
    ()
  }

  override def process(
      key: String,
      context: Context,
      elements: Iterable[Purchase],
      out: Collector[(String, Long, Long, Int)]
  ): Unit = {
    val total = context.globalState.getReducingState(fired)
    val seen = context.windowState.getMapState(values)
    inWindow.add(1)
    total.add(1)
    seen.putAll(elements.map(_.value -> true))
    assert(!seen.isEmpty() && seen.contains(elements.head.value) && !seen.contains(-1))
    out.collect((key, inWindow.get(), total.get(), seen.keys().size))
  }

  override def clear(context: Context): Unit = {
    inWindow.clear()
    context.windowState.getMapState(values).clear()
  }
}

class Length extends WindowFunction[Purchase, (String, Int, Long), String, GlobalWindow] {
  override def apply(
      key: String,
      window: GlobalWindow,
      input: Iterable[Purchase],
      out: Collector[(String, Int, Long)]
  ): Unit = out.collect((key, input.size, input.map(_.value).sum))
}

/** Only windows with more than one element have a result. */
class Most extends AggregateFunction[Purchase, Seq[Long], String] {
  override def createAccumulator(): Seq[Long] = Nil
  override def add(value: Purchase, accumulator: Seq[Long]): Seq[Long] = accumulator :+ value.value
  override def getResult(accumulator: Seq[Long]): String =
    if (accumulator.size > 1) accumulator.max.toString else null
  override def merge(first: Seq[Long], second: Seq[Long]): Seq[Long] = first ++ second
}

class Lengths[W <: Window] extends WindowFunction[String, String, String, W] {
  override def apply(
      key: String,
      window: W,
      input: Iterable[String],
      out: Collector[String]
  ): Unit =
    input.foreach(each => out.collect(s"$each of ${each.length}"))
}

/** Windows in queries: late rows, restarts with other partitions, both backends, batches. */
class WindowsSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val late = OutputTag[Purchase]("late")
  private val tumbling = TumblingEventTimeWindows.of(Duration.ofSeconds(10))
  private val sessions = EventTimeSessionWindows.withGap(Duration.ofSeconds(10))
  private val add: ReduceFunction[Purchase] = (a, b) => Purchase(a.key, a.value + b.value, b.time)

  private def bought(key: String, value: Long, second: Long) =
    Purchase(key, value, new Timestamp(second * 1000))

  private def windowed(data: Dataset[Purchase], delay: String = "0 seconds") =
    data.withWatermark("time", delay).keyBy(_.key)

  private type Windows = WindowedStream[Purchase, String, TimeWindow]

  private val builds = Seq[(String, Windows => Dataset[WindowTotal])](
    "aggregate" -> (_.aggregate(new Sum, new Totals[Long, TimeWindow])),
    "process" -> (_.process(new Totals[Purchase, TimeWindow]))
  )

  private def emitted(key: String, total: Long, start: Long, last: Long): WindowTotal =
    WindowTotal(key, total, start * 1000, last * 1000 + 999)

  /** Keys with totals and starts in seconds. */
  private def short(results: Seq[WindowTotal]) =
    results.map(each => (each.key, each.total, each.start / 1000)).sorted

  private def onPartitions[R](number: Int)(body: => R): R =
    withSetting("spark.sql.shuffle.partitions", number.toString)(body)

  for ((backend, (kind, build)) <- Seq("hashmap", "rocksdb").zip(builds)) {
    test(s"late rows fire again, and then are late output: $kind, on $backend") {
      val stream = new Stream[Purchase](s"late $kind $backend")
      def result(data: Dataset[Purchase]): DataFrame = build(
        windowed(data)
          .window(tumbling)
          .allowedLateness(Duration.ofSeconds(20))
          .sideOutputLateData(late)
      ).withSideOutputs(late)
      def run(partitions: Int)(batches: Seq[Purchase]*) = onPartitions(partitions) {
        val rows = stream.run(result(_))(batches: _*)
        val main = rows.filter(!_.isNullAt(0)).map(_.getStruct(0))
        (
          main.map(row => (row.getString(0), row.getLong(1), row.getLong(2) / 1000)).sorted,
          rows.filter(_.isNullAt(0)).map(_.getStruct(1)).map(r => (r.getString(0), r.getLong(1)))
        )
      }
      withSetting("spark.keystate.backend", backend) {
        val first = Seq(bought("a", 1, 3), bought("a", 2, 7), bought("b", 5, 4))
        assert(run(2)(first, Seq(bought("b", 6, 12))) == ((Seq(("a", 3, 0), ("b", 5, 0)), Nil)))
        // The watermark is 12 s: the first two are late, but not too late.
        val second = Seq(bought("a", 4, 5), bought("b", 100, 9), bought("a", 1, 35))
        assert(run(3)(second) == ((Seq(("a", 7, 0), ("b", 6, 10), ("b", 105, 0)), Nil)))
        // The watermark is 35 s.
        val third = Seq(bought("a", 8, 6), bought("b", 1, 12), bought("c", 1, 34))
        val fired = Seq(("a", 1, 30), ("b", 7, 10), ("c", 1, 30))
        assert(run(1)(third, Seq(bought("a", 1, 60))) == ((fired, Seq(("a", 8)))))
      }
    }

    test(s"sessions over restarts: $kind, on $backend") {
      val stream = new Stream[Purchase](s"sessions $kind $backend")
      def run(partitions: Int)(rows: Purchase*) = onPartitions(partitions) {
        short(stream.run(in => build(windowed(in, "20 seconds").window(sessions)))(rows))
      }
      withSetting("spark.keystate.backend", backend) {
        assert(run(2)(bought("a", 1, 100), bought("a", 2, 115), bought("b", 1, 100)) == Nil)
        assert(run(5)(bought("a", 4, 107), bought("b", 2, 118)) == Nil)
        assert(run(2)(bought("c", 1, 160)) == Seq(("a", 7, 100), ("b", 1, 100), ("b", 2, 118)))
      }
    }
  }

  test("rows that are dropped are counted") {
    val stream = new Stream[Purchase]("dropped")
    val found = stream.run(windowed(_).window(tumbling).reduce(add))(
      Seq(bought("a", 1, 100)),
      Seq(bought("a", 1, 101)),
      Seq(bought("a", 1, 5), bought("b", 1, 6))
    )
    assert(found.isEmpty)
    val operators = stream.progress.flatMap(_.stateOperators)
    val dropped = operators.flatMap(each => Option(each.customMetrics.get("numLateRecordsDropped")))
    assert(dropped.map(_.longValue).sum == 2)
    assert(operators.map(_.numRowsDroppedByWatermark).sum == 0)
  }

  test("an aggregate whose result is null emits nothing, and no window function is called") {
    val data = Seq(bought("a", 1, 3), bought("b", 2, 4), bought("b", 30, 5)).toDS().coalesce(1)
    def in(windows: Windows) = Seq(windows, windows.evictor(CountEvictor.of(9)))
    val keyed = data.keyBy(_.key)
    val made = in(keyed.window(tumbling, "time")) ++ in(keyed.window(sessions, "time")) :+
      keyed.window(tumbling, "time").allowedLateness(Duration.ofSeconds(5))
    made.foreach { windows =>
      assert(windows.aggregate(new Most).collect().toSeq == Seq("30"))
      val told = windows.aggregate(new Most, new Lengths[TimeWindow])
      assert(told.collect().toSeq == Seq("30 of 2"))
    }
  }

  test("of a batch, by columns too; count windows") {
    val rows = Seq(bought("a", 1, 3), bought("a", 2, 7), bought("a", 4, 12), bought("b", 200, 12))
    val data = rows.toDS().coalesce(1)
    val expected = Seq(emitted("a", 3, 0, 9), emitted("a", 4, 10, 19), emitted("b", 200, 10, 19))
    def sorted(found: Dataset[WindowTotal]) =
      found.collect().toSeq.sortBy(each => (each.key, each.start))
    builds.foreach { case (_, build) =>
      val plain = data.keyBy(_.key).window(tumbling, "time")
      assert(sorted(build(plain)) == expected)
      assert(sorted(build(plain.allowedLateness(Duration.ofSeconds(5)))) == expected)
    }
    val byColumn = data.keyed("key").orderBy($"time").window(tumbling, "time")
    assert(sorted(byColumn.aggregate(new Sum, new Totals[Long, TimeWindow])) == expected)
    val inSessions = data
      .keyBy(_.key)
      .window(EventTimeSessionWindows.withDynamicGap((each: Purchase) => each.value * 4000), "time")
    assert(inSessions.reduce(add).collect().map(_.value).toSeq.sorted == Seq(7L, 200L))

    val counted = (0 to 6).map(i => bought("a", i, i)).toDS().coalesce(1).keyBy(_.key)
    assert(
      counted.countWindow(3).apply(new Length).collect().toSeq == Seq(("a", 3, 3), ("a", 3, 12))
    )
    assert(
      counted.countWindow(3, 2).apply(new Length).collect().toSeq ==
        Seq(("a", 2, 1), ("a", 3, 6), ("a", 3, 12))
    )
    assert(data.keyed("key").countWindow(2).apply(new Length).collect().toSeq == Seq(("a", 2, 3)))
  }

  test("a trigger of one's own, and states of windows") {
    val stream = new Stream[Purchase]("own trigger")
    def result(data: Dataset[Purchase], assigner: WindowAssigner[Purchase, TimeWindow]) =
      windowed(data, "10 seconds")
        .window(assigner)
        .trigger(new FirstThenLast)
        .aggregate(new Sum, new Totals[Long, TimeWindow])
    val found = short(
      stream.run(result(_, tumbling))(
        Seq(bought("a", 1, 1)),
        Seq(bought("a", 2, 2), bought("b", 2, 2)),
        Seq(bought("c", 1, 20))
      )
    )
    assert(found == Seq(("a", 1, 0), ("a", 3, 0), ("b", 2, 0), ("c", 1, 20)))
    val merging = new Stream[Purchase]("own trigger of sessions")
    val merged = short(
      merging.run(result(_, sessions))(
        Seq(bought("a", 1, 1), bought("a", 2, 16)),
        Seq(bought("a", 4, 7)),
        Seq(bought("c", 1, 99))
      )
    )
    assert(merged == Seq(("a", 1, 1), ("a", 2, 16), ("a", 7, 1), ("c", 1, 99)))

    val counting = new Stream[Purchase]("states")
    val counts =
      counting.run(windowed(_).window(tumbling).trigger(CountTrigger.of(1)).process(new Counting))(
        Seq(bought("a", 1, 1)),
        Seq(bought("a", 2, 9)),
        Seq(bought("a", 1, 10)),
        Seq(bought("a", 5, 31))
      )
    assert(counts == Seq(("a", 1, 1, 1), ("a", 2, 2, 2), ("a", 1, 3, 1), ("a", 1, 4, 1)))
  }

  test("mistakes") {
    val data = Seq(bought("a", 1, 1)).toDS().keyBy(_.key)
    def message(code: => Any, expected: String = "KEYSTATE_DECLARATION"): String = {
      val error = intercept[KeystateException](code)
      assert(error.code == expected)
      error.getMessage
    }
    def second = Duration.ofSeconds(1)
    def reduced(windows: Windowed[Purchase, TimeWindow]) = windows.reduce(add)
    val noTime = message(reduced(data.window(tumbling)), "KEYSTATE_NO_WATERMARK")
    assert(noTime.contains("TumblingEventTimeWindows need a watermark"))
    assert(message(reduced(data.window(tumbling, "when"))).contains("'when' is not in the input"))
    assert(message(reduced(data.window(tumbling, "value"))).contains("is not a timestamp"))
    val stream = new Stream[Purchase]("no watermark").toDS.keyBy(_.key)
    assert(message(reduced(stream.window(tumbling, "time"))).contains("has no watermark"))
    val lateOutput = data.lateOutput(late).window(tumbling, "time")
    assert(message(reduced(lateOutput)).contains("use sideOutputLateData"))
    assert(message(TumblingEventTimeWindows.of(Duration.ZERO)).contains("more than 0"))
    assert(message(TumblingEventTimeWindows.of(second, second)).contains("less than the slide"))
    assert(message(EventTimeSessionWindows.withGap(Duration.ZERO)).contains("more than 0"))
    val longest = Duration.ofMillis(Long.MaxValue)
    assert(
      message(EventTimeSessionWindows.withGap(longest)).contains("at most 4611686018427387904 ms")
    )
    assert(message(CountTrigger.of(0)).contains("at least 1"))
    assert(message(CountEvictor.of[Purchase](-1)).contains("at least 0"))
    assert(message(ContinuousEventTimeTrigger.of(Duration.ZERO)).contains("more than 0"))
    val negative = data.window(tumbling, "time")
    assert(message(negative.allowedLateness(second.negated)).contains("can't be negative"))
    val unmerged = data
      .window(sessions, "time")
      .trigger(new EventTimeTrigger {
        override def canMerge: Boolean = false
      })
    assert(message(reduced(unmerged)).contains("has no onMerge"))
    // Its own, and that of a CountTrigger that it asks.
    val sharing = data
      .window(tumbling, "time")
      .trigger(new FirstThenLast {
        override def open(states: KeyedStateStore): Unit = {
          states.getReducingState(ReducingStateDescriptor[Long]("seen", (_: Long) + (_: Long)))
          super.open(states)
        }
      })
    assert(
      message(reduced(sharing)).contains("'seen', one by a ReducingStateDescriptor and one by")
    )
    val stateOfSessions = data.window(sessions, "time").process(_: Counting)
    assert(message(stateOfSessions(new Counting)).contains("use globalState"))
  }

  test("an element without event time") {
    val stream = new Stream[Purchase]("no time")
    val error = intercept[Exception] {
      stream.run(windowed(_).window(tumbling).reduce(add))(Seq(Purchase("a", 1, null)))
    }
    assert(s"$error ${error.getCause}".contains("the row has no event time"))
  }
}
