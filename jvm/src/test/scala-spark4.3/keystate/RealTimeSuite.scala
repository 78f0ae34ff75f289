package keystate

import java.lang.management.ManagementFactory
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.jdk.CollectionConverters._

import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.{Dataset, ForeachWriter}

import keystate.errors.KeystateException

/** Functions in Scala in Spark's real-time mode. */
class RealTimeSuite extends AnyFunSuite with SessionFixture with Eventually {
  import RealTimeSuite._
  import spark.implicits._

  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(60, Seconds), Span(20, Millis))

  override def beforeAll(): Unit = {
    super.beforeAll()
    // The stages of a batch run at the same time, on two cores.
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
    spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "100")
  }

  private final class Source {
    private val stream = LowLatencyMemoryStream[(Long, Long)](spark, 1)
    def rows: Dataset[(Long, Long)] = stream.toDF().as[(Long, Long)]
    def add(rows: (Long, Long)*): Unit = {
      val _ = stream.addData(rows)
    }
  }

  private def running[O](name: String, out: Dataset[O], duration: String)(
      test: StreamingQuery => Unit
  ): Unit = {
    Noted.emitted.remove(name)
    val query = out.writeStream
      .outputMode("update")
      .option("checkpointLocation", folder.resolve(name).toString)
      .foreach(new Note[O](name))
      .trigger(Trigger.RealTime(duration))
      .start()
    try test(query)
    catch {
      case failed: Throwable => throw query.exception.map(_.initCause(failed)).getOrElse(failed)
    } finally query.stop()
  }

  /** How many batches have ended. */
  private def ended(query: StreamingQuery): Int = query.recentProgress.length

  private def emitted[O](name: String): Seq[O] = Noted.of(name).asScala.toSeq.asInstanceOf[Seq[O]]

  test("results and state over batches, and over restarts") {
    val rows = (0L until 900L).map(i => (i * 7 % 13, i))
    val totals = rows.groupBy(_._1).map { case (key, of) => key -> of.size.toLong }
    val source = new Source
    def counts(of: Dataset[(Long, Long)]) = of.keyBy(_._1).process(new CountRows)
    var before = Seq.empty[(Long, Long)]
    var batches = 0
    Seq(rows.take(600), rows.drop(600)).foreach { part =>
      running("counts", counts(source.rows), "1 second") { query =>
        part.grouped(200).foreach { some =>
          some.grouped(20).foreach(source.add(_: _*))
          val most = before.size + emitted("counts").size + some.size
          eventually(assert(before.size + emitted("counts").size == most))
          val now = ended(query)
          eventually(assert(ended(query) > now))
        }
        before ++= emitted[(Long, Long)]("counts")
        val withRows = query.recentProgress.filter(_.numInputRows > 0)
        batches += withRows.length
        withRows.foreach { progress =>
          val told = progress.stateOperators(0).customMetrics
          def us(name: String): Long = told.get(name)
          assert(us("keystateLatencyUs.max") >= us("keystateWorkerUs.max"))
          assert(us("keystateLatencyUs.max") >= us("keystateQueueingUs.max"))
          assert(us("keystateLatencyUs.p50") > 0)
          assert(us("keystateLatencyUs.max") < 60000000L)
        }
      }
    }
    assert(batches > 2, "all came in one batch")
    val expected = totals.toSeq.flatMap { case (key, total) => (1L to total).map(key -> _) }
    assert(before.sorted == expected.sorted)
    before.groupBy(_._1).foreach { case (_, of) => assert(of.map(_._2) == of.map(_._2).sorted) }
  }

  test("timers fire within the batch, while no row comes and nobody polls") {
    val source = new Source
    running("alarms", source.rows.keyBy(_._1).process(new Alarms), "10 minutes") { query =>
      source.add((1L, 2000L))
      eventually(assert(emitted[Alarm]("alarms").size == 1))
      source.add((1L, 300L), (2L, 300L))
      eventually(assert(emitted[Alarm]("alarms").size == 3))
      Thread.sleep(500)
      val fired = emitted[Alarm]("alarms")
      assert(fired.map(_.key).toSet == Set(1L, 2L))
      fired.foreach { alarm =>
        assert(alarm.seen >= alarm.time, "the function's clock stood still")
        assert(alarm.at - alarm.time < 5000L)
      }
      assert(fired.size == 3, "a timer that was deleted fired")
      assert(fired.head.cpuMillis < 500, "the task was busy while it waited")
      val _ = assert(ended(query) == 0)
    }
  }

  test("timers that set timers for the past keep neither rows nor the end of the batch waiting") {
    val source = new Source
    running("restless", source.rows.keyBy(_._1).process(new Restless), "2 seconds") { query =>
      source.add((1L, 0L))
      eventually(assert(emitted[Long]("restless").nonEmpty))
      source.add((1L, 1L))
      eventually(assert(emitted[Long]("restless").contains(1L)))
      val _ = eventually(assert(ended(query) > 1))
    }
  }

  test("a timer of an earlier batch fires in a later one, without rows") {
    val source = new Source
    def alarms = source.rows.keyBy(_._1).process(new Alarms)
    val time = System.currentTimeMillis
    running("later", alarms, "1 second") { query =>
      source.add((1L, 8000L))
      val _ = eventually(assert(query.recentProgress.exists(_.numInputRows == 1)))
    }
    assert(emitted[Alarm]("later").isEmpty)
    running("later", alarms, "10 minutes") { query =>
      eventually(assert(emitted[Alarm]("later").size == 1))
      assert(emitted[Alarm]("later").head.at >= time + 8000L)
      val _ = assert(ended(query) == 0)
    }
  }

  test("state expires within the batch") {
    val source = new Source
    val counts = source.rows.keyBy(_._1).process(new Expires)
    running("expires", counts, "10 minutes") { query =>
      source.add((1L, 1L), (1L, 2L))
      eventually(assert(emitted[Long]("expires") == Seq(1L, 2L)))
      Thread.sleep(3000)
      source.add((1L, 3L))
      eventually(assert(emitted[Long]("expires") == Seq(1L, 2L, 1L)))
      val _ = assert(ended(query) == 0)
    }
  }

  test("a static broadcast, which is read with the first batch") {
    val source = new Source
    val factors = Seq((1L, 10L), (2L, 20L)).toDS().broadcast(Factors)
    val out = source.rows.keyBy(_._1).connect(factors).process(new Multiplies)
    running("factors", out, "1 second") { query =>
      Seq(1L, 2L, 3L).foreach { i =>
        source.add((1L, i), (2L, i))
        eventually(assert(emitted[Long]("factors").size == 2 * i))
        val now = ended(query)
        eventually(assert(ended(query) > now))
      }
    }
    assert(emitted[Long]("factors").sorted == Seq(10L, 20L, 20L, 30L, 40L, 60L))
  }

  test("stop() ends at once, while the task waits for rows, and for a timer") {
    val source = new Source
    running("waits", source.rows.keyBy(_._1).process(new CountRows), "10 minutes") { query =>
      source.add((1L, 1L))
      eventually(assert(emitted("waits").size == 1))
      stopsAtOnce(query)
    }
    val alarms = new Source
    running("waits-for-timer", alarms.rows.keyBy(_._1).process(new Alarms), "10 minutes") { query =>
      alarms.add((1L, 600000L), (2L, 0L))
      eventually(assert(emitted("waits-for-timer").size == 1))
      stopsAtOnce(query)
    }
  }

  private def stopsAtOnce(query: StreamingQuery): Unit = {
    val began = System.nanoTime
    query.stop()
    assert(System.nanoTime - began < 60000000000L) // a batch lasts ten minutes
    val _ = assert(query.exception.isEmpty)
  }

  test("an error of the function ends the query, and names the row") {
    val source = new Source
    val out = source.rows.keyBy(_._1).process(new Divides)
    Noted.emitted.remove("divides")
    val query = out.writeStream
      .outputMode("update")
      .option("checkpointLocation", folder.resolve("divides").toString)
      .foreach(new Note[Long]("divides"))
      .trigger(Trigger.RealTime("10 minutes"))
      .start()
    try {
      source.add((1L, 1L), (1L, 0L))
      eventually(assert(query.exception.nonEmpty))
      val causes = Iterator.iterate[Throwable](query.exception.get)(_.getCause).takeWhile(_ != null)
      val own = causes.collectFirst { case known: KeystateException => known }
      assert(own.exists(_.getMessage.contains("(1,0)")), query.exception.get)
    } finally query.stop()
  }
}

object RealTimeSuite {

  /** What functions emitted, by the name of the query. */
  object Noted {
    val emitted = new ConcurrentHashMap[String, ConcurrentLinkedQueue[Any]]
    def of(name: String): ConcurrentLinkedQueue[Any] =
      emitted.computeIfAbsent(name, _ => new ConcurrentLinkedQueue[Any])
  }

  final class Note[O](name: String) extends ForeachWriter[O] {
    override def open(partition: Long, epoch: Long): Boolean = true
    override def process(value: O): Unit = {
      val _ = Noted.of(name).add(value)
    }
    override def close(error: Throwable): Unit = ()
  }

  final class CountRows extends KeyedProcessFunction[Long, (Long, Long), (Long, Long)] {
    @transient private var count: ValueState[Long] = _

    override def open(ctx: RuntimeContext): Unit =
      count = ctx.getState(ValueStateDescriptor("count", 0L))

    override def processElement(
        in: (Long, Long),
        ctx: Context,
        out: Collector[(Long, Long)]
    ): Unit = {
      count.update(count.value() + 1)
      out.collect((in._1, count.value()))
    }
  }

  /** @param seen
    *   the function's clock
    * @param at
    *   the machine's clock
    * @param cpuMillis
    *   how long the task's thread worked since the row
    */
  final case class Alarm(key: Long, time: Long, seen: Long, at: Long, cpuMillis: Long)

  /** Sets a timer as far ahead as the row says, and deletes another one. */
  final class Alarms extends KeyedProcessFunction[Long, (Long, Long), Alarm] {
    @transient private var cpuBefore = 0L

    private def cpu = ManagementFactory.getThreadMXBean.getCurrentThreadCpuTime

    override def processElement(in: (Long, Long), ctx: Context, out: Collector[Alarm]): Unit = {
      val timers = ctx.timerService()
      val now = timers.currentProcessingTime()
      timers.registerProcessingTimeTimer(now + in._2)
      timers.registerProcessingTimeTimer(now + in._2 + 100)
      timers.deleteProcessingTimeTimer(now + in._2 + 100)
      cpuBefore = cpu
    }

    override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[Alarm]): Unit =
      out.collect(
        Alarm(
          ctx.getCurrentKey,
          time,
          ctx.timerService().currentProcessingTime(),
          System.currentTimeMillis,
          (cpu - cpuBefore) / 1000000
        )
      )
  }

  /** Its timer fires again and again. Emits 1 for a row with 1. */
  final class Restless extends KeyedProcessFunction[Long, (Long, Long), Long] {
    override def processElement(in: (Long, Long), ctx: Context, out: Collector[Long]): Unit = {
      ctx.timerService().registerProcessingTimeTimer(1L)
      out.collect(in._2)
    }

    override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[Long]): Unit =
      ctx.timerService().registerProcessingTimeTimer(1L)
  }

  /** Counts; a count lives for a second after it was last written. */
  final class Expires extends KeyedProcessFunction[Long, (Long, Long), Long] {
    @transient private var count: ValueState[Long] = _

    override def open(ctx: RuntimeContext): Unit = {
      val descriptor = ValueStateDescriptor("count", 0L)
      descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Time.seconds(1)).build())
      count = ctx.getState(descriptor)
    }

    override def processElement(in: (Long, Long), ctx: Context, out: Collector[Long]): Unit = {
      count.update(count.value() + 1)
      out.collect(count.value())
    }
  }

  def Factors: MapStateDescriptor[Long, Long] = MapStateDescriptor[Long, Long]("factors")

  final class Multiplies
      extends KeyedBroadcastProcessFunction[Long, (Long, Long), (Long, Long), Long] {
    override def processBroadcastElement(
        in: (Long, Long),
        ctx: Context,
        out: Collector[Long]
    ): Unit = ctx.getBroadcastState(Factors).put(in._1, in._2)

    override def processElement(
        in: (Long, Long),
        ctx: ReadOnlyContext,
        out: Collector[Long]
    ): Unit = out.collect(ctx.getBroadcastState(Factors).get(in._1) * in._2)
  }

  final class Divides extends KeyedProcessFunction[Long, (Long, Long), Long] {
    override def processElement(in: (Long, Long), ctx: Context, out: Collector[Long]): Unit =
      out.collect(1L / in._2)
  }
}
