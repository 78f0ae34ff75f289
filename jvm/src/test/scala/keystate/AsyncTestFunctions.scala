package keystate

import java.util.concurrent.{Executors, TimeUnit}

import scala.concurrent.{ExecutionContext, Future, Promise}
import scala.util.Random

/** Stands for a service. */
object Later {
  private val threads = Executors.newScheduledThreadPool(
    1,
    { (work: Runnable) =>
      val thread = new Thread(work, "test-service")
      thread.setDaemon(true)
      thread
    }
  )

  /** An answer after so many ms, in another thread. */
  def answer[T](ms: Long)(value: => T): Future[T] = {
    val promise = Promise[T]()
    threads.schedule(
      (() => { promise.complete(scala.util.Try(value)); () }): Runnable,
      ms,
      TimeUnit.MILLISECONDS
    )
    promise.future
  }
}

/** Uses states of all kinds in steps, between which a function may wait. */
final class AllSteps(ctx: RuntimeContext) {
  private val count = ctx.getState(ValueStateDescriptor("count", 0L))
  private val all = ctx.getListState(ListStateDescriptor[Long]("all"))
  private val byRest = ctx.getMapState(MapStateDescriptor[Long, Long]("by_rest"))
  private val sorted =
    ctx.getSortedMapState(SortedMapStateDescriptor[Long, Long]("sorted", KeyOrder.NATURAL))
  private val most =
    ctx.getReducingState(ReducingStateDescriptor[Long]("most", (a: Long, b: Long) => a.max(b)))

  def first(): Long = count.value() + 1

  def second(x: Long, n: Long): Long = {
    count.update(n)
    all.add(x)
    most.add(x)
    if (byRest.contains(x % 5)) byRest.get(x % 5) else 0L
  }

  def third(x: Long, n: Long, before: Long, timers: TimerService): String = {
    byRest.put(x % 5, before + 1)
    sorted.put(x, n)
    if (n % 3 == 0) sorted.popFirst()
    if (x % 7 == 0) timers.registerProcessingTimeTimer(x)
    told
  }

  def told: String = {
    def entries(map: MapState[Long, Long]) =
      map.entries().map(e => s"${e.getKey}=${e.getValue}").toSeq.sorted.mkString(",")
    s"${count.value()} ${all.get().mkString(",")} ${entries(byRest)} ${entries(sorted)} ${most.get()}"
  }
}

class PlainSteps extends KeyedProcessFunction[Long, (Long, Long), (Long, String)] {
  @transient private var steps: AllSteps = _

  override def open(ctx: RuntimeContext): Unit = steps = new AllSteps(ctx)

  override def processElement(
      in: (Long, Long),
      ctx: Context,
      out: Collector[(Long, String)]
  ): Unit = {
    val n = steps.first()
    val before = steps.second(in._2, n)
    out.collect((in._1, steps.third(in._2, n, before, ctx.timerService())))
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[(Long, String)]): Unit =
    out.collect((ctx.getCurrentKey, s"timer $time ${steps.told}"))
}

/** The same, with a wait between steps. */
class WaitingSteps(seed: Int)
    extends AsyncKeyedProcessFunction[Long, (Long, Long), (Long, String)] {
  @transient private var steps: AllSteps = _
  @transient private lazy val random = new Random(seed)

  override def open(ctx: RuntimeContext): Unit = steps = new AllSteps(ctx)

  private def pause(): Future[Unit] =
    if (random.nextInt(3) == 0) Future.unit else Later.answer(random.nextInt(3).toLong)(())

  override def processElement(
      in: (Long, Long),
      ctx: Context
  ): Future[IterableOnce[(Long, String)]] = {
    implicit val executor: ExecutionContext = ctx.executionContext
    val n = steps.first()
    for {
      _ <- pause()
      before = steps.second(in._2, n)
      _ <- pause()
    } yield Some((ctx.getCurrentKey, steps.third(in._2, n, before, ctx.timerService())))
  }

  override def onTimer(time: Long, ctx: OnTimerContext): Future[IterableOnce[(Long, String)]] =
    pause().map(_ => Seq((ctx.getCurrentKey, s"timer $time ${steps.told}")))(ctx.executionContext)
}

/** What a test does for an element; it counts those of a key around that. */
class Counting(ask: (String, Long) => Future[Any], late: Option[Long] = None)
    extends AsyncKeyedProcessFunction[String, (String, Long), (String, String)] {
  @transient protected var count: ValueState[Long] = _

  override def open(ctx: RuntimeContext): Unit =
    count = ctx.getState(ValueStateDescriptor("count", 0L))

  override def processElement(
      in: (String, Long),
      ctx: Context
  ): Future[IterableOnce[(String, String)]] = {
    val n = count.value() + 1
    ask(in._1, in._2).map { answer =>
      count.update(n)
      Seq((ctx.getCurrentKey, s"${in._2} $n" + (if (answer == (())) "" else s" $answer")))
    }(ctx.executionContext)
  }

  override def timeout(in: (String, Long), ctx: Context): Future[IterableOnce[(String, String)]] =
    late match {
      case None => super.timeout(in, ctx)
      case Some(added) =>
        Later
          .answer(1)(())
          .map { _ =>
            count.update(count.value() + added)
            Seq((in._1, "late"))
          }(ctx.executionContext)
    }
}

/** How many calls are in flight, of all keys and of this one. */
object InFlight {
  private var keys = Vector.empty[String]

  def ask(key: String, x: Long): Future[Any] = {
    val told = synchronized {
      keys :+= key
      s"${keys.size}/${keys.count(_ == key)}"
    }
    Later.answer(2) {
      synchronized { keys = keys.diff(Seq(key)) }
      told
    }
  }
}

/** Fails as often as the element says, and notes its attempts. */
class Flaky extends AsyncKeyedProcessFunction[String, (String, Long), (String, String)] {
  @transient private var attempts: MapState[Long, Long] = _

  override def open(ctx: RuntimeContext): Unit =
    attempts = ctx.getMapState(MapStateDescriptor[Long, Long]("attempts"))

  override def processElement(
      in: (String, Long),
      ctx: Context
  ): Future[IterableOnce[(String, String)]] = {
    val attempt = (if (attempts.contains(in._2)) attempts.get(in._2) else 0L) + 1
    attempts.put(in._2, attempt)
    ctx.output(Flaky.tried, s"${in._1} $attempt")
    Later
      .answer(1)(())
      .map { _ =>
        if (attempt <= in._2)
          throw (if (in._1 == "fatal") new IllegalStateException("fatal")
                 else new java.io.IOException("flaky"))
        Seq((ctx.getCurrentKey, s"attempt $attempt"))
      }(ctx.executionContext)
  }
}

object Flaky {
  val tried: OutputTag[String] = OutputTag[String]("tried")
}

/** At a key's first timer the second one is deleted, after a wait. */
class TimersThatWait(fails: Boolean)
    extends AsyncKeyedProcessFunction[String, (String, Long), (String, String)] {
  override def processElement(
      in: (String, Long),
      ctx: Context
  ): Future[IterableOnce[(String, String)]] = {
    Seq(10L, 20L, 30L).foreach(ctx.timerService().registerEventTimeTimer)
    Future.successful(Nil)
  }

  override def onTimer(time: Long, ctx: OnTimerContext): Future[IterableOnce[(String, String)]] =
    Later
      .answer(2)(())
      .map { _ =>
        if (fails) throw new IllegalStateException("not now")
        ctx.timerService().deleteEventTimeTimer(20)
        Seq((ctx.getCurrentKey, s"$time ${ctx.timestamp()} ${ctx.timeDomain()}"))
      }(ctx.executionContext)
}

/** Uses its state where it has no key. */
class Elsewhere(where: String)
    extends AsyncKeyedProcessFunction[String, (String, Long), (String, String)] {
  @transient private var count: ValueState[Long] = _
  @transient private var left: Future[Long] = _

  override def open(ctx: RuntimeContext): Unit =
    count = ctx.getState(ValueStateDescriptor("count", 0L))

  override def processElement(
      in: (String, Long),
      ctx: Context
  ): Future[IterableOnce[(String, String)]] = where match {
    case "thread" =>
      Later.answer(1)(Seq((in._1, s"${count.value()}")))
    case "context" =>
      Later.answer(1)(Seq((ctx.getCurrentKey, "")))
    case "later" if left == null =>
      left = Later.answer(5)(()).map(_ => count.value())(ctx.executionContext)
      Future.successful(Nil)
    case "later" => left.map(n => Seq((in._1, s"$n")))(ctx.executionContext)
  }
}

/** Asks for a price once, in Flink's spelling, and sums up what was spent. */
class Price extends RichAsyncFunction[(String, Long), (String, Long)] {
  @transient private var price: ValueState[java.lang.Long] = _
  @transient private var spent: ValueState[Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    price = ctx.getState(ValueStateDescriptor[java.lang.Long]("price"))
    spent = ctx.getState(ValueStateDescriptor("spent", 0L))
  }

  override def asyncInvoke(in: (String, Long), resultFuture: ResultFuture[(String, Long)]): Unit = {
    val known = price.value()
    val asked =
      if (known != null) Future.successful(known)
      else
        Later.answer(10) {
          Price.asked.incrementAndGet()
          long2Long(in._1.length * 10L)
        }
    asked.foreach { found =>
      resultFuture.complete { () =>
        price.update(found)
        spent.update(spent.value() + in._2 * found)
        Seq((in._1, spent.value()))
      }
    }(ExecutionContext.global)
  }
}

object Price {
  val asked = new java.util.concurrent.atomic.AtomicInteger
}
