package keystate.testing

import java.nio.file.Files
import java.sql.Timestamp

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.Dataset

import keystate._

final case class Numbered(key: String, number: Long, time: Timestamp)
final case class Named(time: Timestamp, text: String, id: String)

/** A micro-batch of a case.
  *
  * @param watermark
  *   that it begins with, in ms
  * @param late
  *   how many elements are dropped
  */
final case class CoProcessBatch(
    first: Seq[Numbered],
    second: Seq[Named],
    expected: Map[String, Seq[String]],
    watermark: Long,
    late: Int
)

final case class CoProcessCase(
    name: String,
    build: (Dataset[Numbered], Dataset[Named]) => Dataset[(String, String)],
    batches: Seq[CoProcessBatch]
)

/** The table that Python's functions of two inputs pass too. */
object CoProcessCases {
  abstract class CoProcess extends KeyedCoProcessFunction[String, Numbered, Named, (String, String)]

  val all: Seq[CoProcessCase] = {
    val file = Repository.root.resolve("tests/contract/co_process_cases.json")
    (JsonMethods.parse(Files.readString(file)) \ "cases").children.map { json =>
      def text(field: String) = (json \ field).toOption.map(_.values.toString)
      val batches = (json \ "batches").children
      val made = batches.zip(watermarks(batches)).map { case (batch, watermark) =>
        CoProcessBatch(
          first(batch),
          second(batch),
          (batch \ "expected").children.map { each =>
            (string(each(0)), each(1).children.map(string))
          }.toMap,
          watermark,
          (batch \ "late").toOption.fold(0)(_.values.toString.toInt)
        )
      }
      CoProcessCase(text("name").get, build(text("function").get, text("ordered_by")), made)
    }
  }

  private def first(batch: JValue) = (batch \ "first").children.map { row =>
    Numbered(string(row(0)), row(1).values.toString.toLong, time(row(2)))
  }

  private def second(batch: JValue) = (batch \ "second").children.map { row =>
    Named(time(row(2)), string(row(1)), string(row(0)))
  }

  private def string(json: JValue): String = Option(json.values).map(_.toString).orNull
  private def ms(json: JValue): Option[Long] = Option(string(json)).map(_.toLong)
  private def time(json: JValue): Timestamp = ms(json).map(new Timestamp(_)).orNull

  /** The lesser of the inputs' times, after the batch before. */
  private def watermarks(batches: Seq[JValue]): Seq[Long] =
    batches
      .scanLeft((0L, 0L)) { case ((ofFirst, ofSecond), batch) =>
        val clocks = (batch \ "clocks").children.map(ms)
        def latest(before: Long, times: Seq[Timestamp], clock: Option[Long]) =
          (before +: (times.filter(_ != null).map(_.getTime) ++ clock)).max
        (
          latest(ofFirst, first(batch).map(_.time), clocks.headOption.flatten),
          latest(ofSecond, second(batch).map(_.time), clocks.lastOption.flatten)
        )
      }
      .map { case (ofFirst, ofSecond) => math.min(ofFirst, ofSecond) }

  private def build(
      function: String,
      orderedBy: Option[String]
  )(first: Dataset[Numbered], second: Dataset[Named]): Dataset[(String, String)] = {
    val both = first
      .withWatermark("time", "0 seconds")
      .keyBy(_.key)
      .connect(second.withWatermark("time", "0 seconds").keyBy(_.id))
    val connected = orderedBy.fold(both)(both.orderedBy)
    function match {
      case "Querying" => connected.process(new Querying)
      case "EventTimers" => connected.process(new EventTimers)
      case "TimersWithState" => connected.process(new TimersWithState)
      case "SharedState" => connected.process(new SharedState)
      case "SharedMap" => connected.map(new SharedMap)
      case "Pairs" => connected.flatMap(new Pairs)
    }
  }

  class Querying extends CoProcess {
    override def processElement1(
        in: Numbered,
        ctx: Context,
        out: Collector[(String, String)]
    ): Unit =
      tell(in.number, ctx, out)

    override def processElement2(in: Named, ctx: Context, out: Collector[(String, String)]): Unit =
      tell(in.text, ctx, out)

    private def tell(what: Any, ctx: Context, out: Collector[(String, String)]): Unit = {
      val time = Option(ctx.timestamp()).getOrElse("None")
      val watermark = ctx.timerService().currentWatermark()
      out.collect((ctx.getCurrentKey, s"$what WM:$watermark TS:$time"))
    }
  }

  class EventTimers extends CoProcess {
    override def processElement1(
        in: Numbered,
        ctx: Context,
        out: Collector[(String, String)]
    ): Unit =
      ctx.timerService().registerEventTimeTimer(in.number)

    override def processElement2(in: Named, ctx: Context, out: Collector[(String, String)]): Unit =
      in.text.split(" ").foreach { time =>
        if (time.startsWith("-")) ctx.timerService().deleteEventTimeTimer(time.drop(1).toLong)
        else ctx.timerService().registerEventTimeTimer(time.toLong)
      }

    override def onTimer(
        time: Long,
        ctx: OnTimerContext,
        out: Collector[(String, String)]
    ): Unit = {
      assert(ctx.timestamp() == time)
      out.collect((ctx.getCurrentKey, s"$time ${ctx.timeDomain()}"))
    }
  }

  class TimersWithState extends CoProcess {
    @transient private var seen: ValueState[String] = _

    override def open(ctx: RuntimeContext): Unit =
      seen = ctx.getState(ValueStateDescriptor[String]("seen"))

    override def processElement1(
        in: Numbered,
        ctx: Context,
        out: Collector[(String, String)]
    ): Unit =
      handle(in.key, in.number.toString, ctx, 10, out)

    override def processElement2(in: Named, ctx: Context, out: Collector[(String, String)]): Unit =
      handle(in.id, in.text, ctx, 20, out)

    private def handle(
        key: String,
        value: String,
        ctx: Context,
        wait: Long,
        out: Collector[(String, String)]
    ): Unit = {
      val timers = ctx.timerService()
      if (seen.value() == null) {
        val time = timers.currentWatermark() + wait
        seen.update(s"$value $time")
        timers.registerEventTimeTimer(time)
        out.collect((key, s"INPUT:$value"))
      } else {
        timers.deleteEventTimeTimer(seen.value().split(" ")(1).toLong)
        seen.clear()
      }
    }

    override def onTimer(
        time: Long,
        ctx: OnTimerContext,
        out: Collector[(String, String)]
    ): Unit = {
      out.collect((ctx.getCurrentKey, s"STATE:${seen.value().split(" ").head}"))
      seen.clear()
    }
  }

  /** Every kind of state, written by one input and read by the other. */
  class SharedState extends CoProcess {
    @transient private var total: ValueState[Long] = _
    @transient private var texts: ListState[String] = _
    @transient private var both: MapState[String, Long] = _

    override def open(ctx: RuntimeContext): Unit = {
      total = ctx.getState(ValueStateDescriptor("total", 0L))
      texts = ctx.getListState(ListStateDescriptor[String]("texts"))
      both = ctx.getMapState(MapStateDescriptor[String, Long]("both"))
    }

    override def processElement1(
        in: Numbered,
        ctx: Context,
        out: Collector[(String, String)]
    ): Unit = {
      total.update(total.value() + in.number)
      texts.get().foreach(both.put(_, total.value()))
      out.collect((in.key, s"${total.value()} ${texts.get().mkString}"))
    }

    override def processElement2(
        in: Named,
        ctx: Context,
        out: Collector[(String, String)]
    ): Unit = {
      texts.add(in.text)
      val pairs = both.entries().map(each => s"('${each.getKey}', ${each.getValue})").toSeq.sorted
      out.collect((in.id, s"${in.text} ${total.value()} ${pairs.mkString("[", ", ", "]")}"))
    }
  }

  class SharedMap extends RichCoMapFunction[Numbered, Named, (String, String)] {
    @transient private var count: ValueState[Long] = _

    override def open(ctx: RuntimeContext): Unit =
      count = ctx.getState(ValueStateDescriptor("count", 0L))

    private def counted(): Long = {
      count.update(count.value() + 1)
      count.value()
    }

    override def map1(in: Numbered): (String, String) = (in.key, s"${in.number} ${counted()}")
    override def map2(in: Named): (String, String) = (in.id, s"${in.text} ${counted()}")
  }

  class Pairs extends CoFlatMapFunction[Numbered, Named, (String, String)] {
    override def flatMap1(in: Numbered, out: Collector[(String, String)]): Unit =
      if (in.number % 2 == 0) {
        out.collect((in.key, s"${in.number}"))
        out.collect((in.key, s"${in.number} again"))
      }

    override def flatMap2(in: Named, out: Collector[(String, String)]): Unit =
      in.text.split(" ").filter(_.nonEmpty).foreach(part => out.collect((in.id, part)))
  }
}
