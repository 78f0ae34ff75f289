package keystate

import java.util.concurrent.atomic.AtomicBoolean

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streaming.StreamingQueryProgress

/** A function's own metrics, as tests/query/test_metrics.py has them for Python. */
class MetricsSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val names = Set("rows", "money", "events", "size", "unused", "held")

  private def ofFunction(progress: StreamingQueryProgress): Map[String, Long] =
    progress.stateOperators.head.customMetrics.asScala.toMap.collect {
      case (name, value) if names(name.takeWhile(_ != '.')) => name -> value.longValue
    }

  test("the progress has them for each micro-batch, without what a failed attempt counted") {
    val stream = new Stream[Long]("measured")
    CountsWhatItSees.fail.set(true)
    val out =
      stream.run(_.keyBy(identity).process(new CountsWhatItSees))(0L until 10L, Seq(3L, 7L), Nil)
    assert(out.size == 12 && !CountsWhatItSees.fail.get)
    val found = stream.progress.filter(_.numInputRows > 0).map(ofFunction)
    assert(
      found.map(_ - "held.sum" - "held.min" - "held.max") == Seq(
        Map(
          "rows" -> 10L,
          "money.eur.balance" -> -20L,
          "events" -> 20L,
          "size.count" -> 10L,
          "size.sum" -> 45L,
          "size.min" -> 0L,
          "size.max" -> 9L,
          "unused.count" -> 0L,
          "unused.sum" -> 0L
        ),
        Map(
          "rows" -> 2L,
          "money.eur.balance" -> -4L,
          "events" -> 4L,
          "size.count" -> 2L,
          "size.sum" -> 10L,
          "size.min" -> 3L,
          "size.max" -> 7L,
          "unused.count" -> 0L,
          "unused.sum" -> 0L
        )
      )
    )
    // An instance goes on where it is: but the one that failed was replaced, and began with 0.
    assert(found.head("held.sum") == 10 && found(1)("held.min") <= found(1)("held.max"))
  }

  test("mistakes of metrics") {
    def declared(open: RuntimeContext => Any) = intercept[KeystateException](
      spark.range(3).as[Long].stream.flatMap(new Opens(open))
    ).getMessage
    assert(declared { ctx =>
      ctx.getMetricGroup.counter("n")
      ctx.getMetricGroup.meter("n")
    }.contains("Metric 'n' is a counter already"))
    def failure(open: RuntimeContext => Any) = intercept[Exception](
      spark.range(3).as[Long].stream.flatMap(new Opens(open)).collect()
    ).getMessage
    assert(failure { ctx =>
      if (ctx.getAttemptNumber + ctx.getMaxNumberOfParallelSubtasks > 1) ctx.getMetricGroup
    }.contains("There were no metrics when the query was planned"))
    val source = intercept[Exception] {
      val counted = spark.addSource(new CountingSource)
      val query = counted.writeStream.format("noop")
      query.option("checkpointLocation", folder.resolve("source").toString)
      query.start().awaitTermination()
    }
    assert(source.getMessage.contains("A source has no metrics of its own"))
  }
}

/** Fails once, when it has counted some elements of an attempt that must not count. */
class CountsWhatItSees extends KeyedProcessFunction[Long, Long, Long] {
  @transient private var rows: Counter = _
  @transient private var balance: Counter = _
  @transient private var events: Meter = _
  @transient private var size: Distribution = _
  @transient private var held = 0

  override def open(ctx: RuntimeContext): Unit = {
    val metrics = ctx.getMetricGroup
    rows = metrics.counter("rows")
    balance = metrics.addGroup("money", "eur").counter("balance")
    events = metrics.meter("events")
    size = metrics.distribution("size")
    metrics.distribution("unused")
    metrics.gauge("held", () => held)
    assert(metrics.counter("rows") eq rows)
  }

  override def processElement(value: Long, ctx: Context, out: Collector[Long]): Unit = {
    rows.inc()
    balance.inc(5)
    balance.dec(7)
    events.markEvent(2)
    size.update(value)
    held += 1
    if (value == 7 && CountsWhatItSees.fail.getAndSet(false))
      throw new IllegalStateException("once")
    out.collect(value)
  }
}

object CountsWhatItSees {
  val fail = new AtomicBoolean
}

/** Does in `open` what it is told to. */
class Opens(does: RuntimeContext => Any) extends RichFlatMapFunction[Long, Long] {
  override def open(ctx: RuntimeContext): Unit = {
    val _ = does(ctx)
  }
  override def flatMap(value: Long, out: Collector[Long]): Unit = ()
}

class CountingSource extends RichSourceFunction[Long] {
  override def open(ctx: RuntimeContext): Unit = {
    val _ = ctx.getMetricGroup
  }
  override def run(ctx: SourceFunction.SourceContext[Long]): Unit = ()
  override def cancel(): Unit = ()
}
