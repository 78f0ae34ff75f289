package keystate

import scala.annotation.nowarn

import org.apache.spark.sql.Row

@nowarn("cat=deprecation")
class EveryState extends KeyedProcessFunction[String, (String, Int), String] {
  @transient private var value: ValueState[Int] = _
  @transient private var list: ListState[Int] = _
  @transient private var reduced: ReducingState[Int] = _
  @transient private var aggregated: AggregatingState[Int, Double] = _
  @transient private var folded: FoldingState[Int, String] = _
  @transient private var visits: MapState[String, Visit] = _
  @transient private var sorted: SortedMapState[Int, String] = _

  override def open(ctx: RuntimeContext): Unit = {
    value = ctx.getState(ValueStateDescriptor("value", 0))
    list = ctx.getListState(ListStateDescriptor[Int]("list"))
    reduced = ctx.getReducingState(ReducingStateDescriptor[Int]("reduced", _ + _))
    aggregated = ctx.getAggregatingState(AggregatingStateDescriptor("aggregated", new Average))
    folded = ctx.getFoldingState(
      FoldingStateDescriptor[Int, String]("folded", "0", (text, n) => s"$text+$n")
    )
    visits = ctx.getMapState(MapStateDescriptor[String, Visit]("visits"))
    sorted =
      ctx.getSortedMapState(SortedMapStateDescriptor[Int, String]("sorted", KeyOrder.DESCENDING))
  }

  override def processElement(in: (String, Int), ctx: Context, out: Collector[String]): Unit =
    if (in._2 == 0) {
      Seq(value, list, reduced, aggregated, folded, visits, sorted).foreach(_.clear())
      assert(visits.isEmpty() && list.get().isEmpty && sorted.firstEntry() == null)
      out.collect("cleared")
    } else {
      value.update(value.value() + 1)
      list.add(in._2)
      reduced.add(in._2)
      aggregated.add(in._2)
      folded.add(in._2)
      val page = s"p${in._2 % 2}"
      visits.put(page, Visit(page, Option(visits.get(page)).fold(0)(_.count) + 1))
      sorted.put(in._2, "x")
      out.collect(
        s"value ${value.value()}, list ${list.get().mkString("|")}, reduced ${reduced.get()}, " +
          s"aggregated ${aggregated.get()}, folded ${folded.get()}, visits " +
          s"${visits.values().mkString("|")}, sorted ${sorted.keys().mkString("|")}"
      )
    }
}

/** Changes what it gets where there is no value yet, as code that is used to its own objects does. */
@nowarn("cat=deprecation")
class ChangesDefaults extends KeyedProcessFunction[String, (String, Int), String] {
  @transient private var seen: ValueState[Array[Long]] = _
  @transient private var folded: FoldingState[Int, Array[Long]] = _

  override def open(ctx: RuntimeContext): Unit = {
    seen = ctx.getState(ValueStateDescriptor("seen", Array(0L)))
    folded =
      ctx.getFoldingState(FoldingStateDescriptor[Int, Array[Long]]("folded", Array(0L), add(_, _)))
  }

  private def add(sum: Array[Long], n: Int): Array[Long] = {
    sum(0) += n
    sum
  }

  override def processElement(in: (String, Int), ctx: Context, out: Collector[String]): Unit = {
    val count = add(seen.value(), 1)(0)
    folded.add(in._2)
    out.collect(s"${in._1} $count ${folded.get()(0)}")
  }
}

class Average extends AggregateFunction[Int, (Long, Long), Double] {
  override def createAccumulator(): (Long, Long) = (0L, 0L)
  override def add(value: Int, acc: (Long, Long)): (Long, Long) = (acc._1 + 1, acc._2 + value)
  override def getResult(acc: (Long, Long)): Double = acc._2.toDouble / acc._1
  override def merge(a: (Long, Long), b: (Long, Long)): (Long, Long) =
    (a._1 + b._1, a._2 + b._2)
}

class Ranges extends KeyedProcessFunction[Int, Int, String] {
  @transient private var map: SortedMapState[Int, String] = _

  override def open(ctx: RuntimeContext): Unit =
    map = ctx.getSortedMapState(SortedMapStateDescriptor[Int, String]("map"))

  override def processElement(in: Int, ctx: Context, out: Collector[String]): Unit = {
    def show(name: String, keys: Iterator[MapEntry[Int, String]]): Unit =
      out.collect(s"$name ${keys.map { case MapEntry(k, v) => s"$k$v" }.mkString(",")}")
    map.putAll(Seq(-5, 0, 3, 8, 12).map(k => k -> s":${k * 2}"))
    show("all", map.iterator())
    show("head", map.headIterator(3))
    show("tail", map.tailIterator(3))
    show("sub", map.subIterator(-5, 8))
    show("reverse", map.subIterator(-5, 8, reverse = true))
    show("none", map.subIterator(8, -5))
    show("ends", Iterator(map.firstEntry(), map.lastEntry()))
    show("near", Iterator(map.floorEntry(7), map.ceilingEntry(4), map.floorEntry(8)))
    assert(map.floorEntry(-6) == null && map.ceilingEntry(13) == null)
    val before = map.iterator()
    before.next()
    map.entries().foreach(entry => map.remove(entry.getKey))
    assert(map.isEmpty())
    show("before", before)
    map.putAll(Seq(1 -> "a", 2 -> "b", 3 -> "c", 4 -> "d"))
    show("popped", Iterator(map.popFirst()))
    map.removeRange(3, 4)
    show("left", map.iterator())
  }
}

object Ranges {
  val expected: Seq[String] = Seq(
    "all -5:-10,0:0,3:6,8:16,12:24",
    "head -5:-10,0:0",
    "tail 3:6,8:16,12:24",
    "sub -5:-10,0:0,3:6",
    "reverse 3:6,0:0,-5:-10",
    "none ",
    "ends -5:-10,12:24",
    "near 3:6,8:16,8:16",
    "before 0:0,3:6,8:16,12:24",
    "popped 1a",
    "left 2b,4d"
  )
}

/** Emits, when the input has ended, sizes and sums of what it kept. */
class Large extends KeyedProcessFunction[Int, Int, (Int, Int, Long)] {
  @transient private var list: ListState[Int] = _
  @transient private var map: MapState[Int, Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    list = ctx.getListState(ListStateDescriptor[Int]("list"))
    map = ctx.getMapState(MapStateDescriptor[Int, Long]("map"))
  }

  override def processElement(in: Int, ctx: Context, out: Collector[(Int, Int, Long)]): Unit = {
    list.add(in)
    map.put(in, in.toLong)
    ctx.timerService().registerEventTimeTimer(0)
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[(Int, Int, Long)]): Unit = {
    assert(list.get().toSeq == map.keys().toSeq)
    out.collect((ctx.getCurrentKey, list.get().size, map.values().max))
  }
}

class Silence extends KeyedProcessFunction[String, Click, String] {
  @transient private var last: ValueState[Long] = _

  override def open(ctx: RuntimeContext): Unit =
    last = ctx.getState(ValueStateDescriptor[Long]("last"))

  override def processElement(click: Click, ctx: Context, out: Collector[String]): Unit = {
    assert(ctx.timestamp() == click.at.getTime)
    val service = ctx.timerService()
    if (last.value() != 0) service.deleteEventTimeTimer(last.value() + 10000)
    else service.registerProcessingTimeTimer(service.currentProcessingTime())
    last.update(ctx.timestamp())
    service.registerEventTimeTimer(ctx.timestamp() + 10000)
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[String]): Unit =
    if (ctx.timeDomain() == TimeDomain.PROCESSING_TIME) out.collect(s"clock ${ctx.getCurrentKey}")
    else {
      assert(ctx.timestamp() == time && ctx.timerService().currentWatermark() >= time)
      out.collect(s"${ctx.getCurrentKey} silent at ${time / 1000} after ${last.value() / 1000}")
      last.clear()
    }
}

class KeyOfTuple extends KeyedProcessFunction[(Int, String), Row, String] {
  override def processElement(in: Row, ctx: Context, out: Collector[String]): Unit =
    out.collect(ctx.getCurrentKey.toString)
}

class KeyOfRow extends KeyedProcessFunction[Row, Row, String] {
  override def processElement(in: Row, ctx: Context, out: Collector[String]): Unit = {
    val key = ctx.getCurrentKey
    out.collect(s"x=${key.getAs[Int]("x")} y=${key.getAs[String]("y")}")
  }
}

class KeyOfLong extends KeyedProcessFunction[Long, Row, Long] {
  override def processElement(in: Row, ctx: Context, out: Collector[Long]): Unit =
    out.collect(ctx.getCurrentKey)
}

/** Emits key, subtask, how many elements the key had here, and where it is. */
class Where extends RichFlatMapFunction[Long, (Long, Int, Int, String)] {
  @transient private var seen: Map[Long, Int] = _

  override def open(ctx: RuntimeContext): Unit = seen = Map.empty.withDefaultValue(0)

  override def flatMap(in: Long, out: Collector[(Long, Int, Int, String)]): Unit = {
    seen += in -> (seen(in) + 1)
    val ctx = getRuntimeContext
    val place = s"${ctx.getTaskName} of ${ctx.getNumberOfParallelSubtasks}, " +
      s"${ctx.getMaxNumberOfParallelSubtasks} groups"
    out.collect((in, ctx.getIndexOfThisSubtask, seen(in), place))
  }
}

class FailsAt(at: Long) extends RichFlatMapFunction[(Long, Long), Long] {
  @transient private var sum: ValueState[Long] = _

  override def open(ctx: RuntimeContext): Unit =
    sum = ctx.getState(ValueStateDescriptor("sum", 0L))

  override def flatMap(in: (Long, Long), out: Collector[Long]): Unit = {
    sum.update(sum.value() + in._2)
    if (in._2 == at) throw new IllegalStateException(s"no $at")
    out.collect(sum.value())
  }
}

/** Asks for states in `open` and does nothing else. */
class Declares(declare: RuntimeContext => Unit) extends RichFlatMapFunction[(Long, Long), Long] {
  override def open(ctx: RuntimeContext): Unit = declare(ctx)
  override def flatMap(in: (Long, Long), out: Collector[Long]): Unit = ()
}
