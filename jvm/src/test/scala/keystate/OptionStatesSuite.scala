package keystate

import java.sql.Timestamp

import scala.annotation.nowarn

import org.scalatest.funsuite.AnyFunSuite

import keystate.windows.{
  ProcessWindowFunction, TimeWindow, TumblingEventTimeWindows, WindowRuntimeContext
}

/** An option that is none is a value like others: what a state gives at once, it gives later. */
class OptionStatesSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private def check[T: TypeInformation](some: T, none: T) =
    withSetting("spark.sql.shuffle.partitions", "1") {
      val stream =
        new Stream[(String, String)](s"options${some.getClass.getName}$some".hashCode.toString)
      def run(batches: Seq[(String, String)]*) =
        stream.run(_.keyBy(_._1).process(new KeepsOptions(some, none)))(batches: _*).toMap
      val wanted = KeepsOptions.wanted(some.toString)
      assert(run(Seq("a" -> "write")) == wanted, "at once")
      assert(run(Seq("a" -> "read")) == wanted, "after a restart")
      assert(run(Seq("a" -> "clear")) == Map("value" -> some.toString, "unset" -> "null"))
    }

  test("a number that is none") {
    check[Option[Int]](Some(7), None)
  }

  test("a string that is none") {
    check[Option[String]](Some("x"), None)
  }

  test("a value that can be changed and is none") {
    check[Option[Timestamp]](Some(new Timestamp(7)), None)
  }

  test("broadcast state") {
    val options = MapStateDescriptor[Long, Option[Int]]("options")
    val stream = Seq(1L).toDS().keyBy(identity).connect(Seq(1L).toDS().broadcast(options))
    val found = stream.process(new BroadcastsOptions(options)).collect().toSeq
    assert(found == Seq("None", "None", "null"))
  }

  test("states of a window") {
    val found = Seq(("a", new Timestamp(0)))
      .toDS()
      .keyBy(_._1)
      .window(TumblingEventTimeWindows.of(Time.seconds(10)), eventTime = "_2")
      .process(new WindowOptions)
    assert(found.collect().toSeq == Seq("None,None,List(None, Some(1)),Some(7)"))
  }
}

object KeepsOptions {
  def wanted(some: String): Map[String, String] = Map(
    "value" -> "None",
    "unset" -> "None",
    "default" -> "None",
    "map" -> s"None,$some,null",
    "entries" -> s"(1,None),(2,$some)",
    "sorted" -> "(1,None)",
    "list" -> s"$some,None",
    "reducing" -> "None",
    "aggregating" -> "None",
    "folding" -> "None",
    "operator list" -> s"None,$some",
    "union list" -> s"None,$some"
  )
}

/** Keeps options in states of all kinds, and tells what they have. */
@nowarn("cat=deprecation")
class KeepsOptions[T: TypeInformation](some: T, none: T)
    extends KeyedProcessFunction[String, (String, String), (String, String)]
    with CheckpointedFunction {
  @transient private var value, unset, default: ValueState[T] = _
  @transient private var map: MapState[Long, T] = _
  @transient private var sorted: SortedMapState[Long, T] = _
  @transient private var list, kept, union: ListState[T] = _
  @transient private var reducing: ReducingState[T] = _
  @transient private var aggregating: AggregatingState[T, T] = _
  @transient private var folding: FoldingState[T, T] = _

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val keyed = context.getKeyedStateStore
    value = keyed.getState(ValueStateDescriptor("value", some))
    unset = keyed.getState(ValueStateDescriptor[T]("unset"))
    default = keyed.getState(ValueStateDescriptor("of none", none))
    map = keyed.getMapState(MapStateDescriptor[Long, T]("map"))
    sorted = keyed.getSortedMapState(SortedMapStateDescriptor[Long, T]("sorted"))
    list = keyed.getListState(ListStateDescriptor[T]("list"))
    val second: ReduceFunction[T] = (_, b) => b
    reducing = keyed.getReducingState(ReducingStateDescriptor("reducing", second))
    aggregating = keyed.getAggregatingState(
      AggregatingStateDescriptor[T, T, T]("aggregating", new LastOf(some))
    )
    val folded: FoldFunction[T, T] = (_, b) => b
    folding = keyed.getFoldingState(FoldingStateDescriptor[T, T]("folding", some, folded))
    kept = context.getOperatorStateStore.getListState(ListStateDescriptor[T]("kept"))
    union = context.getOperatorStateStore.getUnionListState(ListStateDescriptor[T]("union"))
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = ()

  private def write(): Unit = {
    value.update(none)
    unset.update(none)
    map.put(1, none)
    map.put(2, some)
    sorted.put(1, none)
    list.add(some)
    list.add(none)
    Seq(kept, union).foreach(_.update(Seq(none, some)))
    Seq(some, none).foreach { each =>
      reducing.add(each)
      aggregating.add(each)
      folding.add(each)
    }
  }

  override def processElement(
      step: (String, String),
      ctx: Context,
      out: Collector[(String, String)]
  ): Unit = {
    def tell(name: String, found: Any*): Unit =
      out.collect(name -> found.map(String.valueOf(_: Any)).mkString(","))
    if (step._2 == "write") write()
    if (step._2 == "clear") {
      Seq(value, unset).foreach(_.update(null.asInstanceOf[T]))
      tell("value", value.value())
      tell("unset", unset.value())
    } else {
      tell("value", value.value())
      tell("unset", unset.value())
      tell("default", default.value())
      tell("map", map.get(1), map.get(2), map.get(3))
      tell("entries", map.entries().map(e => (e.getKey, e.getValue)).toSeq.sortBy(_._1): _*)
      val first = sorted.firstEntry()
      tell("sorted", (first.getKey, first.getValue))
      tell("list", list.get().toSeq: _*)
      tell("reducing", reducing.get())
      tell("aggregating", aggregating.get())
      tell("folding", folding.get())
      tell("operator list", kept.get().toSeq: _*)
      tell("union list", union.get().toSeq: _*)
    }
  }
}

class BroadcastsOptions(state: MapStateDescriptor[Long, Option[Int]])
    extends KeyedBroadcastProcessFunction[Long, Long, Long, String] {
  override def processBroadcastElement(n: Long, ctx: Context, out: Collector[String]): Unit =
    ctx.getBroadcastState(state).put(n, None)

  override def processElement(n: Long, ctx: ReadOnlyContext, out: Collector[String]): Unit = {
    val options = ctx.getBroadcastState(state)
    out.collect(String.valueOf(options.get(n)))
    out.collect(String.valueOf(options.entries().head.getValue))
    out.collect(String.valueOf(options.get(n + 1)))
  }
}

class WindowOptions extends ProcessWindowFunction[(String, Timestamp), String, String, TimeWindow] {
  @transient private var value: ValueState[Option[Int]] = _
  @transient private var map: MapState[Long, Option[Int]] = _
  @transient private var list: ListState[Option[Int]] = _

  override def open(context: WindowRuntimeContext): Unit = {
    val store = context.windowState
    value = store.getState(ValueStateDescriptor[Option[Int]]("value", Some(7)))
    map = store.getMapState(MapStateDescriptor[Long, Option[Int]]("map"))
    list = store.getListState(ListStateDescriptor[Option[Int]]("list"))
  }

  override def process(
      key: String,
      context: Context,
      elements: Iterable[(String, Timestamp)],
      out: Collector[String]
  ): Unit = {
    val default = value.value()
    value.update(None)
    map.put(1, None)
    list.update(Seq(None, Some(1)))
    out.collect(s"${value.value()},${map.get(1)},${list.get().toList},$default")
  }
}
