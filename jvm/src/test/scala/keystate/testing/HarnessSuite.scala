package keystate.testing

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}
import java.sql.Timestamp

import org.json4s.jackson.JsonMethods
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{collect_set, count, expr, lit, sort_array, sum}
import org.apache.spark.sql.{Dataset, Row}

import keystate.BehaviourTable.{batchCount, steps, table}
import keystate._

final case class Seen(key: String, number: Long, time: Timestamp)

/** Adds numbers up and remembers them, with timers; a negative number is an error. */
class Recorder extends KeyedProcessFunction[String, Seen, (String, Long, Int)] {
  @transient private var total: ValueState[Long] = _
  @transient private var all: MapState[Long, Long] = _
  private var processed = 0

  override def open(ctx: RuntimeContext): Unit = {
    total = ctx.getState(ValueStateDescriptor("total", 0L))
    all = ctx.getMapState(MapStateDescriptor[Long, Long]("all"))
  }

  override def processElement(in: Seen, ctx: Context, out: Collector[(String, Long, Int)]): Unit = {
    processed += 1
    total.update(total.value() + in.number)
    all.put(in.number, 1)
    if (in.number < 0) throw new IllegalArgumentException("negative")
    if (in.number > 100) {
      ctx.timerService().registerEventTimeTimer(in.number)
      ctx.output(Recorder.large, ctx.getCurrentKey)
    }
    out.collect((in.key, total.value(), processed))
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[(String, Long, Int)]): Unit =
    out.collect((ctx.getCurrentKey, time, getRuntimeContext.getIndexOfThisSubtask))
}

object Recorder {
  val large: OutputTag[String] = OutputTag[String]("large")
}

/** Counts what its subtask saw, in operator state, beside what all subtasks saw. */
class SubtaskCounts extends ProcessFunction[Long, (Int, Long, Long)] with CheckpointedFunction {
  @transient private var own: ListState[Long] = _
  @transient private var union: ListState[Long] = _
  private var n = 0L
  private var ofAll = 0L

  override def initializeState(context: FunctionInitializationContext): Unit = {
    own = context.getOperatorStateStore.getListState(ListStateDescriptor[Long]("own"))
    union = context.getOperatorStateStore.getUnionListState(ListStateDescriptor[Long]("union"))
    n = own.get().sum
    ofAll = union.get().sum
  }

  override def processElement(in: Long, ctx: Context, out: Collector[(Int, Long, Long)]): Unit = {
    n += 1
    out.collect((getRuntimeContext.getIndexOfThisSubtask, n, ofAll))
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    own.update(Seq(n))
    union.update(Seq(n))
  }
}

/** Emits what a state with a time to live has. */
class Expiring extends KeyedProcessFunction[String, (String, Long), String] {
  @transient private var last: ValueState[java.lang.Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    val descriptor = ValueStateDescriptor[java.lang.Long]("last")
    descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Time.milliseconds(100)).build())
    last = ctx.getState(descriptor)
  }

  override def processElement(in: (String, Long), ctx: Context, out: Collector[String]): Unit = {
    out.collect(s"${last.value()}")
    if (last.value() == null) last.update(in._2)
  }
}

/** What tests/contract/test_harness.py says of Python's harness. */
class HarnessSuite extends AnyFunSuite with SessionFixture {
  private type Recorded = (String, Long, Int)

  private def recorder(parallelism: Int = 1, late: Option[OutputTag[Seen]] = None) =
    new KeyedOneInputStreamOperatorTestHarness[Seen, Recorded](
      in => {
        val keyed = in.withWatermark("time", "10 seconds").keyBy(_.key)
        late.fold(keyed)(keyed.lateOutput).process(new Recorder)
      },
      parallelism,
      sideOutputs = Recorder.large +: late.toSeq
    )

  private def seen(key: String, number: Long, ms: Long = 1) = Seen(key, number, new Timestamp(ms))

  override def beforeAll(): Unit = {
    super.beforeAll()
    val _ = spark // the harness takes the session that there is
  }

  for (parallelism <- Seq(1, 4)) test(s"every behaviour case, with $parallelism subtasks") {
    val states = JsonMethods.compact(table \ "states")
    def harness(subtasks: Int) =
      new KeyedOneInputStreamOperatorTestHarness[Step, (String, Int, String)](
        _.withWatermark("time", "0 seconds").keyed("name").process(new Interpreter(states)),
        subtasks
      )
    var running = harness(parallelism)
    for (batch <- 0 until batchCount) {
      val emitted = running.processBatch(
        steps(batch).map(_._1),
        watermark = Some(100L * batch),
        processingTime = Some(1700000000000L)
      )
      assert(emitted.sorted == BehaviourTable.expected(batch).sorted)
      // As a restart does, with more subtasks.
      val snapshot = running.snapshot()
      running.close()
      running = harness(parallelism + batch)
      running.initializeState(snapshot)
    }
    running.close()
  }

  test("state lasts, clocks stand still, and timers fire after the rows") {
    val harness = recorder()
    try {
      harness.open()
      assert(harness.processElement(seen("a", 3)) == Seq(("a", 3, 1)))
      assert(harness.processElement(seen("a", 300), 7) == Seq(("a", 303, 2)))
      val rows = Seq(seen("b", 200), seen("a", 1))
      val emitted = harness.processBatch(rows, watermark = Some(250))
      assert(emitted == Seq(("b", 200, 3), ("a", 304, 4), ("b", 200, 0)))
      assert(harness.processWatermark(250) == Nil)
      assert(harness.processWatermark(299) == Nil)
      assert(harness.processWatermark(300) == Seq(("a", 300, 0)))
      assert(harness.getCurrentWatermark == 300)
      assert(harness.setProcessingTime(1000) == Nil && harness.getProcessingTime == 1000)
      assert(harness.extractOutputValues().size == 6)
      assert(harness.getSideOutput(Recorder.large) == Seq("a", "b"))
      assert(harness.numKeyedStateEntries("total") == 2)
      assert(harness.numKeyedStateEntries("all") == 4)
      assert(harness.numKeyedStateEntries == 6)
      harness.clearOutput()
      assert(harness.extractOutputValues() == Nil && harness.getSideOutput(Recorder.large) == Nil)
      val back = intercept[KeystateException](harness.processWatermark(299))
      assert(
        back.code == "KEYSTATE_DECLARATION" && back.getMessage.contains("Clocks do not go back")
      )
    } finally harness.close()
  }

  test("a micro-batch that fails changes nothing, and a new function begins") {
    val harness = recorder(parallelism = 3)
    try {
      harness.processBatch(Seq("a", "b", "c").map(seen(_, 1)))
      val error = intercept[KeystateException] {
        harness.processBatch(Seq(seen("a", 5), seen("b", 500), seen("c", -1)), Some(900))
      }
      assert(error.code == "KEYSTATE_FUNCTION_FAILED" && error.getCause.getMessage == "negative")
      assert(harness.getCurrentWatermark == 0)
      val again = harness.processBatch(Seq("a", "b", "c").map(seen(_, 1)))
      assert(again.map(each => (each._1, each._2)).sorted == Seq(("a", 2), ("b", 2), ("c", 2)))
      assert(harness.processWatermark(1000) == Nil)
    } finally harness.close()
  }

  test("late elements are dropped, or go to their side output") {
    val late = OutputTag[Seen]("late")
    for (output <- Seq(None, Some(late))) {
      val harness = recorder(late = output)
      try {
        harness.processWatermark(500)
        assert(harness.processBatch(Seq(seen("a", 1, 500), seen("a", 2, 501))).map(_._2) == Seq(2))
        if (output.isEmpty) assert(harness.numLateElements == 1)
        else assert(harness.getSideOutput(late) == Seq(seen("a", 1, 500)))
      } finally harness.close()
    }
  }

  test("a snapshot goes on with other subtasks, as bytes") {
    val keys = (0 until 20).map(i => s"key $i")
    val before = recorder(parallelism = 2)
    before.processBatch(keys.map(seen(_, 300)))
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(before.snapshot())
    before.close()
    val snapshot = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray))
      .readObject()
      .asInstanceOf[OperatorSnapshot]
    val after = recorder(parallelism = 5)
    try {
      after.initializeState(snapshot)
      assert(after.processBatch(keys.map(seen(_, 1))).map(_._2) == Seq.fill(20)(301))
      val fired = after.processWatermark(300)
      assert(fired.map(_._1).sorted == keys.sorted)
      assert(fired.map(_._3).toSet == (0 until 5).toSet, "timers are where their keys are")
    } finally after.close()
    val fewer = new KeyedOneInputStreamOperatorTestHarness[Seen, Recorded](
      _.withWatermark("time", "0 seconds").keyBy(_.key).process(new Recorder),
      maxParallelism = 64
    )
    val error = intercept[KeystateException](fewer.initializeState(snapshot))
    assert(error.code == "KEYSTATE_MAX_PARALLELISM_CHANGED")
    fewer.close()
  }

  test("states and timers of another key are refused, as by a query") {
    def keyed[K: TypeInformation](key: Long => K) =
      new KeyedOneInputStreamOperatorTestHarness[Long, Long](
        _.keyBy(key).mapWithState((n: Long, sum: Option[Long]) => (n, Some(sum.getOrElse(0L) + n)))
      )
    def snapshotOf(harness: KeyedOneInputStreamOperatorTestHarness[Long, _]) =
      try {
        harness.processElement(1)
        harness.snapshot()
      } finally harness.close()
    val ofLongs = snapshotOf(keyed(identity))
    val ofStrings = keyed(_.toString)
    val error = intercept[KeystateException](ofStrings.initializeState(ofLongs))
    assert(error.code == "KEYSTATE_KEY_CHANGED")
    ofStrings.close()
    // Without states or timers there is nothing of a key.
    val none = new KeyedOneInputStreamOperatorTestHarness[Long, Long](
      _.keyBy(_.toString).filter(new FilterFunction[Long] {
        override def filter(n: Long): Boolean = true
      })
    )
    val after = keyed(identity)
    after.initializeState(snapshotOf(none))
    assert(after.processElement(2) == Seq(2))
    after.close()
  }

  test("operator state is dealt out, and functions without keys run") {
    def counts(parallelism: Int) =
      new KeyedOneInputStreamOperatorTestHarness[Long, (Int, Long, Long)](
        _.stream.process(new SubtaskCounts),
        parallelism
      )
    val before = counts(3)
    before.processBatch((1L to 30L).toSeq)
    val snapshot = before.snapshot()
    assert(before.extractOutputValues().map(_._1).toSet == Set(0, 1, 2))
    before.close()
    val after = counts(1)
    after.initializeState(snapshot)
    assert(after.processElement(1) == Seq((0, 31, 30)))
    after.restart()
    assert(after.processElement(2) == Seq((0, 32, 31)))
    after.close()
  }

  test("states expire by the harness's clock") {
    val harness = new KeyedOneInputStreamOperatorTestHarness[(String, Long), String](
      _.keyBy(_._1).process(new Expiring)
    )
    try {
      assert(harness.processElement(("a", 1L)) == Seq("null"))
      harness.setProcessingTime(99)
      assert(harness.processElement(("a", 2L)) == Seq("1"))
      harness.setProcessingTime(101)
      assert(harness.processElement(("a", 3L)) == Seq("null"))
    } finally harness.close()
  }

  test("elements come in the order that the stream asks for, on both backends") {
    for (backend <- Seq("hashmap", "rocksdb")) {
      val harness = new KeyedOneInputStreamOperatorTestHarness[(String, Long), (String, Long)](
        _.keyed("_1").orderBy("_2").flatMap { in: (String, Long) => Seq(in) },
        backend = backend
      )
      val in = Seq(("a", 3L), ("a", 1L), ("a", 2L))
      assert(harness.processBatch(in) == in.sortBy(_._2))
      harness.close()
    }
  }

  test("an async function runs in it") {
    val harness = new KeyedOneInputStreamOperatorTestHarness[(String, Long), (String, String)](
      _.keyBy(_._1).process(new Counting((_, x) => Later.answer(x)(())), capacity = 2)
    )
    assert(
      harness.processBatch(Seq(("a", 20L), ("b", 1L), ("a", 2L))) ==
        Seq(("a", "20 1"), ("b", "1 1"), ("a", "2 2"))
    )
    harness.close()
  }

  test("aggregates of columns run in it, and a snapshot of them goes on") {
    def means(parallelism: Int) = new KeyedOneInputStreamOperatorTestHarness[Seen, Row](
      _.withWatermark("time", "0 seconds")
        .keyBy(_.key)
        .aggregate(
          (sum("number") / count(lit(1))).as("mean"),
          expr("round(avg(number) FILTER (WHERE number > 1), 1)").as("more"),
          sort_array(collect_set("number")).as("all")
        ),
      parallelism
    )
    val keys = (0 until 10).map(i => s"key $i")
    val before = means(2)
    assert(
      before.processBatch(keys.flatMap(key => Seq(seen(key, 1), seen(key, 4)))).toSet ==
        keys.map(Row(_, 2.5, 4.0, Seq(1L, 4L))).toSet
    )
    assert(before.processElement(seen("key 1", 7)) == Seq(Row("key 1", 4.0, 5.5, Seq(1L, 4L, 7L))))
    assert(before.numKeyedStateEntries == 10)
    val after = means(3)
    after.initializeState(before.snapshot())
    before.close()
    assert(after.processElement(seen("key 1", 4)) == Seq(Row("key 1", 4.0, 5.0, Seq(1L, 4L, 7L))))
    assert(after.extractOutputValues().size == 1 && after.numKeyedStateEntries == 10)
    after.close()
  }

  test("what is no operator of one input is refused") {
    def refused(build: Dataset[Long] => Dataset[Long]) = {
      val error = intercept[KeystateException] {
        new KeyedOneInputStreamOperatorTestHarness[Long, Long](build)
      }
      assert(error.code == "KEYSTATE_DECLARATION")
    }
    refused(_.filter(_ > 1))
    refused(in => in.keyBy(identity).map((x: Long) => x).filter(_ > 1))
    val harness =
      new KeyedOneInputStreamOperatorTestHarness[Long, Long](_.keyBy(identity).map((x: Long) => x))
    val error = intercept[KeystateException](harness.processElement(1, 5))
    assert(error.getMessage.contains("A timestamp needs a watermark"))
    harness.close()
  }
}
