package keystate

import java.sql.Timestamp
import java.time.Duration

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate.stream.WindowedStream
import keystate.testing.KeyedOneInputStreamOperatorTestHarness
import keystate.windows.{
  CountEvictor, CountTrigger, EventTimeSessionWindows, GlobalWindows, ProcessWindowFunction,
  SlidingEventTimeWindows, TimeEvictor, TumblingEventTimeWindows, Window, WindowAssigner,
  WindowRuntimeContext
}

/** Fails on some elements, when it has taken them. */
class FailingAdd extends AggregateFunction[Part, Seq[Int], Seq[Int]] {
  override def createAccumulator(): Seq[Int] = Nil
  override def add(value: Part, accumulator: Seq[Int]): Seq[Int] = {
    if (value.number % 7 == 0) throw new IllegalStateException(s"number ${value.number}")
    accumulator :+ value.number
  }
  override def getResult(accumulator: Seq[Int]): Seq[Int] = accumulator
  override def merge(first: Seq[Int], second: Seq[Int]): Seq[Int] = first ++ second
}

/** Fails on windows of some contents, when it has changed its states; or leaves these windows out. */
class FailingWindow[IN](skips: Boolean, ownState: Boolean)
    extends ProcessWindowFunction[IN, String, String, Window] {
  @transient private var all: ValueState[Long] = _
  @transient private var last: ListState[String] = _
  @transient private var own: ValueState[Long] = _

  override def open(ctx: WindowRuntimeContext): Unit = {
    all = ctx.globalState.getState(ValueStateDescriptor("all", 0L))
    last = ctx.globalState.getListState(ListStateDescriptor[String]("last"))
    if (ownState) own = ctx.windowState.getState(ValueStateDescriptor("own", 0L))
  }

  override def process(
      key: String,
      context: Context,
      elements: Iterable[IN],
      out: Collector[String]
  ): Unit = {
    val text = elements
      .map {
        case part: Part => part.number
        case other => other
      }
      .mkString(" ")
    val fails = text.length % 3 == 0
    if (!skips || !fails) {
      all.update(all.value() + 1)
      if (own != null) own.update(own.value() + 1)
      last.add(text)
      out.collect(s"$key $text ${all.value()} ${last.get().size}")
      if (fails) throw new IllegalArgumentException("of the window")
    }
  }

  override def clear(context: Context): Unit = if (own != null) own.clear()
}

/** Dead letters of windows: what tests/contract/test_dead_letters.py says of Python's. */
class WindowDeadLettersSuite extends AnyFunSuite with SessionFixture {
  private val dead = OutputTag[DeadLetter[Part]]("dead")
  private type Windows = WindowedStream[Part, String, Window]

  override def beforeAll(): Unit = {
    super.beforeAll()
    val _ = spark // the harness takes the session that there is
  }

  private def ms(time: Long) = Duration.ofMillis(time)

  private def assigned[W <: Window](assigner: WindowAssigner[Part, W])(in: Dataset[Part]) =
    in.withWatermark("time", "0 seconds").keyBy(_.key).onError(DeadLetters(dead)).window(assigner)

  private val cases = Seq[(String, Dataset[Part] => Any)](
    "tumbling" -> assigned(TumblingEventTimeWindows.of(ms(20))),
    "sliding, late" -> (assigned(SlidingEventTimeWindows.of(ms(20), ms(10)))(_)
      .allowedLateness(ms(15))),
    "sessions" -> assigned(EventTimeSessionWindows.withGap(ms(5))),
    "counts" -> (_.withWatermark("time", "0 seconds")
      .keyBy(_.key)
      .onError(DeadLetters(dead))
      .countWindow(3))
  )

  private val counts = (in: Dataset[Part]) =>
    assigned(GlobalWindows.create())(in).trigger(CountTrigger.of(2))

  /** Their elements are added up when they fire. */
  private val evicting = Seq[(String, Dataset[Part] => Any)](
    "evicting before" -> (counts(_).evictor(CountEvictor.of(5))),
    "evicting after" -> (counts(_).evictor(CountEvictor.of(1, doEvictAfter = true))),
    "evicting times after" -> (assigned(SlidingEventTimeWindows.of(ms(20), ms(10)))(_)
      .allowedLateness(ms(30))
      .evictor(TimeEvictor.of(ms(7), doEvictAfter = true)))
  )

  for (
    (name, windows) <- cases ++ evicting; aggregates <- Seq(true, false);
    backend <- Seq("hashmap") ++ Option.when(name.startsWith("sliding"))("rocksdb")
  )
    test(s"$name, ${if (aggregates) "aggregated" else "listed"}, on $backend") {
      def harness(skips: Boolean) = new KeyedOneInputStreamOperatorTestHarness[Part, String](
        in => {
          val of = windows(in).asInstanceOf[Windows]
          val ownState = name != "sessions"
          if (aggregates)
            of.aggregate(new FailingAdd, new FailingWindow[Seq[Int]](skips, ownState))
          else of.process(new FailingWindow[Part](skips, ownState))
        },
        sideOutputs = Seq(dead),
        backend = backend
      )
      val addsAtOnce = aggregates && !evicting.exists(_._1 == name)
      val letters = (1 to 2).flatMap { seed =>
        val random = new Random(seed)
        val (failing, without) = (harness(skips = false), harness(skips = true))
        try {
          for (batch <- 0 until 5) {
            val parts = Seq.fill(random.nextInt(30)) {
              val time = batch * 20L + random.nextInt(40)
              Part(
                "ab".charAt(random.nextInt(2)).toString,
                random.nextInt(100),
                new Timestamp(time)
              )
            }
            val fine = parts.filter(_.number % 7 != 0)
            val emitted = failing.processBatch(if (addsAtOnce) parts else fine)
            assert(emitted == without.processBatch(fine))
            val until = batch * 20L + random.nextInt(20)
            assert(failing.processWatermark(until) == without.processWatermark(until))
            assert(failing.numKeyedStateEntries == without.numKeyedStateEntries)
            assert(failing.numEventTimeTimers == without.numEventTimeTimers)
          }
          assert(without.getSideOutput(dead).isEmpty)
          failing.getSideOutput(dead)
        } finally {
          failing.close()
          without.close()
        }
      }
      val (rows, fired) = letters.partition(_.row != null)
      assert(rows.nonEmpty == addsAtOnce && fired.nonEmpty)
      assert(fired.forall(each => each.timer != null && each.message == "of the window"))
      assert(
        rows.forall(each => each.timer == null && each.message == s"number ${each.row.number}")
      )
      val trace = fired.head.traceback.linesIterator.toSeq
      assert(trace(1).contains("FailingWindow.process") && trace.size < 4)
    }
}
