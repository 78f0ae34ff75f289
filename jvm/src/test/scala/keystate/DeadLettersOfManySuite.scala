package keystate

import java.sql.Timestamp
import java.time.Duration
import java.util.{List => JList}

import scala.concurrent.{ExecutionContext, Future}
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate.AsyncRetryStrategies.FixedDelayRetryStrategyBuilder
import keystate.errors.KeystateException
import keystate.testing.KeyedOneInputStreamOperatorTestHarness

/** Changes states and timers between waits, and then fails on some elements and timers; or leaves them
  * out.
  */
class FailingAsync(skips: Boolean) extends AsyncKeyedProcessFunction[String, Part, String] {
  @transient private var count: ValueState[Long] = _
  @transient private var all: ListState[Int] = _

  override def open(ctx: RuntimeContext): Unit = {
    count = ctx.getState(ValueStateDescriptor("count", 0L))
    all = ctx.getListState(ListStateDescriptor[Int]("all"))
  }

  override def processElement(in: Part, ctx: Context): Future[IterableOnce[String]] =
    act(in.number, fails = in.number % 3 == 0, ctx)

  override def onTimer(time: Long, ctx: OnTimerContext): Future[IterableOnce[String]] =
    act(time.toInt, fails = time % 5 == 0, ctx)

  private def act(n: Int, fails: Boolean, ctx: AsyncContext[String]): Future[IterableOnce[String]] =
    if (skips && fails) Future.successful(Nil)
    else {
      implicit val executor: ExecutionContext = ctx.executionContext
      val before = count.value()
      count.update(before + 1)
      ctx.output(FailingAsync.side, n)
      if (fails && n % 2 == 0) throw new IllegalStateException(s"at once $n")
      Later.answer(n % 3L)(()).map { _ =>
        all.add(n)
        if (n < 60) ctx.timerService().registerEventTimeTimer(n + 50L)
        ctx.timerService().deleteEventTimeTimer(n + 51L)
        if (fails) throw new IllegalStateException(s"later $n")
        Seq(s"${ctx.getCurrentKey} $n $before ${count.value()} ${all.get().mkString(",")}")
      }
    }
}

object FailingAsync {
  val side: OutputTag[Int] = OutputTag[Int]("side")
}

/** Updates the totals of all keys, and fails if some number can be divided by 3. */
class FailingBatches extends KeyedBatchFunction[String, Part, String] {
  @transient private var total: ValueState[Long] = _

  override def open(ctx: RuntimeContext): Unit =
    total = ctx.getState(ValueStateDescriptor("total", 0L))

  override def processBatch(
      batch: KeyedBatch[String, Part],
      ctx: SideOutputContext,
      out: Collector[String]
  ): Unit = {
    val totals = batch.values(total).toArray
    batch.elements.lazyZip(batch.keyOfElement).foreach { (part, index) =>
      totals(index) += part.number
      ctx.output(FailingAsync.side, part.number)
      out.collect(s"${part.key} ${totals(index)}")
    }
    batch.update(total, totals)
    batch.elements.find(_.number % 3 == 0).foreach { part =>
      throw new IllegalStateException(s"number ${part.number}")
    }
  }
}

/** Keeps numbers in a list of operator state; then fails on some. */
class FailingOperator extends ProcessFunction[Part, String] with CheckpointedFunction {
  @transient private var kept: ListState[Int] = _

  override def initializeState(context: FunctionInitializationContext): Unit =
    kept = context.getOperatorStateStore.getListState(ListStateDescriptor[Int]("kept"))
  override def snapshotState(context: FunctionSnapshotContext): Unit = ()

  override def processElement(in: Part, ctx: Context, out: Collector[String]): Unit = {
    if (in.number % 9 == 0) kept.clear()
    kept.add(in.number)
    out.collect(kept.get().mkString(","))
    if (in.number % 3 == 0) throw new IllegalStateException(s"number ${in.number}")
  }
}

/** An async function with operator state. */
class AsyncWithState
    extends AsyncKeyedProcessFunction[String, Part, String]
    with ListCheckpointed[Long] {
  override def processElement(in: Part, ctx: Context): Future[IterableOnce[String]] =
    Future.successful(Nil)
  override def snapshotState(checkpointId: Long, timestamp: Long): JList[Long] =
    java.util.Collections.emptyList
  override def restoreState(state: JList[Long]): Unit = ()
}

/** Dead letters of functions that have many elements at hand, or state that is of no key. */
class DeadLettersOfManySuite extends AnyFunSuite with SessionFixture {
  private type Harness = KeyedOneInputStreamOperatorTestHarness[Part, String]
  private val dead = OutputTag[DeadLetter[Part]]("dead")

  override def beforeAll(): Unit = {
    super.beforeAll()
    val _ = spark // the harness takes the session that there is
  }

  private def part(key: String, number: Int) = Part(key, number, new Timestamp(number.toLong))

  private def parts(random: Random): Seq[Part] = Seq.fill(random.nextInt(40)) {
    part("abc".charAt(random.nextInt(3)).toString, random.nextInt(50))
  }

  private def keyed(in: Dataset[Part], letters: DeadLetters[Part] = DeadLetters(dead)) =
    in.withWatermark("time", "0 seconds").keyBy(_.key).onError(letters)

  private def harness(
      build: Dataset[Part] => Dataset[String],
      backend: String = "hashmap",
      parallelism: Int = 1
  ) = new Harness(
    build,
    parallelism = parallelism,
    sideOutputs = Seq(dead, FailingAsync.side),
    backend = backend
  )

  private def ids(letters: Seq[DeadLetter[Part]]) = letters.map(_.id)

  for (ordered <- Seq(true, false); backend <- Seq("hashmap", "rocksdb"))
    test(s"what an async call did is undone, ${if (ordered) "" else "un"}ordered, on $backend") {
      def made(skips: Boolean) =
        harness(keyed(_).process(new FailingAsync(skips), capacity = 3, ordered = ordered), backend)
      for (seed <- 1 to 2) {
        val random = new Random(seed)
        val (failing, without) = (made(skips = false), made(skips = true))
        def same(a: Seq[String], b: Seq[String]) =
          if (ordered) assert(a == b) else assert(a.sorted == b.sorted)
        try {
          for (batch <- 0 until 4) {
            val all = parts(random)
            same(failing.processBatch(all), without.processBatch(all))
            val until = batch * 30L + random.nextInt(30)
            same(failing.processWatermark(until), without.processWatermark(until))
            assert(failing.numKeyedStateEntries == without.numKeyedStateEntries)
            assert(failing.numEventTimeTimers == without.numEventTimeTimers)
          }
          val side = Seq(failing, without).map(_.getSideOutput(FailingAsync.side))
          assert(side.map(_.sorted).distinct.size == 1)
          val letters = failing.getSideOutput(dead)
          val (rows, timers) = letters.partition(_.row != null)
          assert(rows.nonEmpty && rows.forall(_.row.number % 3 == 0))
          assert(timers.nonEmpty && timers.forall(_.timer % 5 == 0))
          val trace = rows.find(_.message.startsWith("at once")).get.traceback.linesIterator.toSeq
          assert(trace(1).contains("FailingAsync.act") && trace.size < 5)
          assert(ids(letters).distinct.size == letters.size)
        } finally {
          failing.close()
          without.close()
        }
      }
    }

  test("letters of async calls are in the order of their elements, and limits count so") {
    val in = Seq(part("a", 6), part("b", 1), part("b", 3), part("c", 9), part("a", 2))
    val failing = harness(keyed(_).process(new FailingAsync(skips = false), ordered = false))
    failing.processBatch(in)
    assert(failing.getSideOutput(dead).map(_.row) == in.filter(_.number % 3 == 0))
    failing.close()
    val limited = harness(
      keyed(_, DeadLetters(dead, maxInARow = Some(1))).process(new FailingAsync(skips = false))
    )
    val error = intercept[KeystateException](limited.processBatch(in))
    assert(error.code == "KEYSTATE_TOO_MANY_DEAD_LETTERS")
    limited.close()
  }

  test("letters have the same ids in another order of the elements and with other subtasks") {
    val in = Seq(part("a", 3), part("b", 3), part("a", 6), part("a", 3), part("c", 9))
    def found(elements: Seq[Part], parallelism: Int = 1) = {
      val fn = new FailingAsync(skips = false)
      val failing = harness(keyed(_).process(fn), parallelism = parallelism)
      failing.processBatch(elements)
      val letters = failing.getSideOutput(dead)
      failing.close()
      letters.map(letter => (letter.row.toString, letter.id)).sorted
    }
    assert(found(in).map(_._2).distinct.size == in.size)
    assert(found(in) == found(in.reverse))
    for (parallelism <- Seq(2, 3)) assert(found(in) == found(in, parallelism))
  }

  test("what all attempts and the timeout did is undone") {
    val retry = new FixedDelayRetryStrategyBuilder[(String, String)](2, 1).build()
    val letters = OutputTag[DeadLetter[(String, Long)]]("dead")
    def emitted(fn: AsyncKeyedProcessFunction[String, (String, Long), (String, String)]) = {
      val harness =
        new KeyedOneInputStreamOperatorTestHarness[(String, Long), (String, String)](
          _.keyBy(_._1)
            .onError(DeadLetters(letters))
            .process(fn, timeout = Some(Duration.ofMillis(500)), retry = Some(retry)),
          sideOutputs = Seq(letters)
        )
      try {
        val results = harness.processBatch(Seq(("a", 1L), ("a", 2000L), ("b", 0L), ("a", 0L)))
        (results, harness.getSideOutput(letters).map(_.error), harness.numKeyedStateEntries)
      } finally harness.close()
    }
    val (flaky, errors, entries) = emitted(new Flaky)
    assert(flaky.map(_._2) == Seq("attempt 2", "attempt 1", "attempt 1"))
    assert(errors == Seq("java.io.IOException") && entries == 3)
    val slow = new Counting((_, x) => Later.answer(x)(()))
    val (counted, timeouts, _) = emitted(slow)
    assert(counted.map(_._2) == Seq("1 1", "0 1", "0 2"))
    assert(timeouts == Seq("java.util.concurrent.TimeoutException"))
  }

  for (backend <- Seq("hashmap", "rocksdb"))
    test(s"a function of batches is called for halves, on $backend") {
      val random = new Random(5)
      val failing = harness(keyed(_).processBatches(new FailingBatches), backend)
      val without = harness(keyed(_).processBatches(new FailingBatches), backend)
      try {
        val batches = Seq.fill(4)(parts(random))
        batches.foreach { all =>
          val fine = all.filter(_.number % 3 != 0)
          assert(failing.processBatch(all) == without.processBatch(fine))
          assert(failing.numKeyedStateEntries == without.numKeyedStateEntries)
        }
        assert(failing.getSideOutput(FailingAsync.side) == without.getSideOutput(FailingAsync.side))
        val letters = failing.getSideOutput(dead)
        assert(letters.map(_.row) == batches.flatten.filter(_.number % 3 == 0))
        assert(letters.forall(letter => letter.message == s"number ${letter.row.number}"))
      } finally {
        failing.close()
        without.close()
      }
    }

  test("lists of operator state") {
    val failing = harness(_.stream.onError(DeadLetters(dead)).process(new FailingOperator))
    try {
      val emitted = failing.processBatch(Seq(1, 3, 2, 9, 4).map(part("a", _)))
      assert(emitted == Seq("1", "1,2", "1,2,4"))
      assert(failing.getSideOutput(dead).map(_.row.number) == Seq(3, 9))
    } finally failing.close()
  }

  test("what has no dead letters") {
    import spark.implicits._
    val letters = keyed(Seq(part("a", 1)).toDS())
    val error = intercept[KeystateException](letters.process(new AsyncWithState))
    assert(error.code == "KEYSTATE_DECLARATION" && error.getMessage.contains("operator state"))
  }
}
