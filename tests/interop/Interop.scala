// The functions of test_interop.py in Scala, each applied to a DataFrame.
import keystate._
import keystate.windows._
import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.json4s.jackson.JsonMethods

/** Copies every state of every type into another one. */
class Copies(types: Seq[(String, String, Boolean)]) extends KeyedProcessFunction[Long, Row, Long] {
  @transient private var values: Seq[ValueState[Any]] = _
  @transient private var lists: Seq[ListState[Any]] = _
  @transient private var maps: Seq[MapState[String, Any]] = _
  @transient private var sorted: Seq[SortedMapState[Any, Long]] = _

  override def open(ctx: RuntimeContext): Unit = {
    def info(ddl: String) = TypeInformation.ddl[Any](ddl)
    values = types.map { case (name, ddl, _) =>
      ctx.getState(new ValueStateDescriptor(s"v_$name", info(ddl)))
    }
    lists = types.map { case (name, ddl, _) =>
      ctx.getListState(new ListStateDescriptor(s"l_$name", info(ddl)))
    }
    maps = types.map { case (name, ddl, _) =>
      ctx.getMapState(MapStateDescriptor[String, Any](s"m_$name")(implicitly, info(ddl)))
    }
    sorted = types.collect { case (name, ddl, true) =>
      ctx.getSortedMapState(SortedMapStateDescriptor[Any, Long](s"k_$name")(info(ddl), implicitly))
    }
  }

  override def processElement(row: Row, ctx: Context, out: Collector[Long]): Unit = {
    for (((value, list), map) <- values.zip(lists).zip(maps)) {
      val last = list.get().last
      list.add(value.value())
      value.update(last)
      map.put("scala", map.get("py"))
    }
    sorted.foreach(map => map.entries().foreach(e => map.put(e.getKey, e.getValue + 100)))
    out.collect(ctx.getCurrentKey)
  }
}

/** Keeps the operator lists that it is restored with, and adds to a union list what it saw of it. */
class Keeps(types: Seq[(String, String)])
    extends ProcessFunction[Row, Long]
    with CheckpointedFunction {
  @transient private var lists: Seq[ListState[Any]] = _
  @transient private var counts: ListState[Long] = _
  @transient private var seen = 0L

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val store = context.getOperatorStateStore
    lists = types.map { case (name, ddl) =>
      store.getListState(new ListStateDescriptor(name, TypeInformation.ddl[Any](ddl)))
    }
    counts = store.getUnionListState(ListStateDescriptor[Long]("counts"))
    seen = counts.get().sum
  }

  override def processElement(row: Row, ctx: Context, out: Collector[Long]): Unit =
    out.collect(seen)

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    lists.foreach(list => list.update(list.get()))
    counts.update(Seq(seen))
  }
}

/** The function of the same name in test_interop.py. */
class Convert extends KeyedBroadcastProcessFunction[String, Row, Row, (String, Double, String)] {
  type Out = Collector[(String, Double, String)]

  @transient private var total: ValueState[Double] = _

  private def rates = MapStateDescriptor[String, Rate]("rates")

  override def open(ctx: RuntimeContext): Unit =
    total = ctx.getState(ValueStateDescriptor("total", 0.0))

  override def processBroadcastElement(row: Row, ctx: Context, out: Out): Unit = {
    val state = ctx.getBroadcastState(rates)
    val currency = row.getAs[String]("currency")
    if (row.isNullAt(1)) state.remove(currency)
    else state.put(currency, Rate(row.getDouble(1), "scala"))
  }

  override def processElement(row: Row, ctx: ReadOnlyContext, out: Out): Unit = {
    val rate = ctx.getBroadcastState(rates).get(row.getAs[String]("currency"))
    total.update(total.value() + row.getAs[Double]("amount") * Option(rate).fold(0.0)(_.rate))
    out.collect((ctx.getCurrentKey, total.value(), Option(rate).map(_.by).orNull))
  }

  def descriptor: MapStateDescriptor[String, Rate] = rates
}

final case class Rate(rate: Double, by: String)

final case class Mean(count: Long, total: Long)

class MeanOf extends AggregateFunction[Long, Mean, Double] {
  override def createAccumulator(): Mean = Mean(0, 0)
  override def add(value: Long, mean: Mean): Mean = Mean(mean.count + 1, mean.total + value)
  override def getResult(mean: Mean): Double = mean.total.toDouble / mean.count
  override def merge(a: Mean, b: Mean): Mean = Mean(a.count + b.count, a.total + b.total)
}

/** Emits what a key amounts to when it was silent for ten seconds. */
class Silence extends KeyedProcessFunction[String, Row, (String, Long, Double, String, Long)] {
  type Out = Collector[(String, Long, Double, String, Long)]

  @transient private var total: ReducingState[Long] = _
  @transient private var mean: AggregatingState[Long, Double] = _
  @transient private var text: FoldingState[Long, String] = _
  @transient private var last: ValueState[java.lang.Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    total = ctx.getReducingState(ReducingStateDescriptor[Long]("total", _ + _))
    mean = ctx.getAggregatingState(AggregatingStateDescriptor("mean", new MeanOf))
    text = ctx.getFoldingState(FoldingStateDescriptor[Long, String]("text", ">", _ + _))
    last = ctx.getState(ValueStateDescriptor[java.lang.Long]("last"))
  }

  override def processElement(row: Row, ctx: Context, out: Out): Unit = {
    if (last.value() != null) ctx.timerService().deleteEventTimeTimer(last.value() + 10000)
    val value = row.getAs[Long]("value")
    total.add(value)
    mean.add(value)
    text.add(value)
    last.update(ctx.timestamp())
    ctx.timerService().registerEventTimeTimer(ctx.timestamp() + 10000)
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Out): Unit = {
    out.collect((ctx.getCurrentKey, total.get(), mean.get(), text.get(), time))
    Seq(total, mean, text, last).foreach(_.clear())
  }
}

/** The function of ttl_cases.py, which see. */
class TtlStates extends KeyedProcessFunction[Long, Row, (Long, Int, String)] {
  @transient private var states: Map[(String, String), State] = _

  override def open(ctx: RuntimeContext): Unit = states = (for {
    config <- Seq("write", "read", "expired")
    (kind, state) <- declared(ctx, config)
  } yield (kind, config) -> state).toMap

  private def declared(ctx: RuntimeContext, config: String): Seq[(String, State)] = {
    val builder = StateTtlConfig.newBuilder(Time.milliseconds(100))
    if (config == "read") builder.updateTtlOnReadAndWrite()
    if (config == "expired") builder.returnExpiredIfNotCleanedUp().disableCleanupInBackground()
    val ttl = builder.build()
    def expiring[D <: StateDescriptor[_]](descriptor: D): D = {
      descriptor.enableTimeToLive(ttl)
      descriptor
    }
    def name(kind: String) = s"${kind}_$config"
    val sum = (a: Long, b: Long) => a + b
    Seq(
      "value" -> ctx.getState(expiring(ValueStateDescriptor[java.lang.Long](name("value")))),
      "list" -> ctx.getListState(expiring(ListStateDescriptor[Long](name("list")))),
      "map" -> ctx.getMapState(expiring(MapStateDescriptor[String, java.lang.Long](name("map")))),
      "sorted_map" -> ctx.getSortedMapState(
        expiring(SortedMapStateDescriptor[Long, java.lang.Long](name("sorted_map")))
      ),
      "reducing" -> ctx.getReducingState(
        expiring(ReducingStateDescriptor[Long](name("reducing"), sum(_, _)))
      ),
      "aggregating" -> ctx.getAggregatingState(
        expiring(AggregatingStateDescriptor(name("aggregating"), new SumOf))
      ),
      "folding" -> ctx.getFoldingState(
        expiring(FoldingStateDescriptor[Long, Long](name("folding"), 0L, sum(_, _)))
      )
    )
  }

  override def processElement(
      row: Row,
      ctx: Context,
      out: Collector[(Long, Int, String)]
  ): Unit = {
    val (kind, operation) = (row.getAs[String]("kind"), row.getAs[String]("operation"))
    val given = Json.read(JsonMethods.parse(row.getAs[String]("argument"))) match {
      case all: List[_] if operation == "put" => all
      case null => Nil
      case one => List(one)
    }
    val arguments =
      if (kind == "map" && Set("put", "get", "contains")(operation))
        given.head.toString :: given.tail
      else given
    val state = states((kind, row.getAs[String]("config")))
    val result = Steps.perform(state, operation, arguments) match {
      case entries: Iterable[_] if operation == "items" =>
        entries.collect { case MapEntry(key, value) => Seq(key.toString.toLong, value) }.toSeq
      case all: Iterable[_] => all.toSeq
      case one => one
    }
    val json = JsonMethods.compact(Json.write(result))
    out.collect((ctx.getCurrentKey, row.getAs[Int]("number"), json))
  }
}

class SumOf extends AggregateFunction[Long, Long, Long] {
  override def createAccumulator(): Long = 0
  override def add(value: Long, sum: Long): Long = sum + value
  override def getResult(sum: Long): Long = sum
  override def merge(a: Long, b: Long): Long = a + b
}

/** A struct that Python knew as `n int, gone string, ratio float`. */
final case class Trip(limit: Int = 7, n: Long, ratio: Double)

/** Reads trips, and counts them on where the row says so. */
class Trips extends KeyedProcessFunction[String, Row, (String, String)] {
  @transient private var trip: ValueState[Trip] = _
  @transient private var list: ListState[Trip] = _

  override def open(ctx: RuntimeContext): Unit = {
    trip = ctx.getState(ValueStateDescriptor[Trip]("trip"))
    list = ctx.getListState(ListStateDescriptor[Trip]("list"))
  }

  override def processElement(row: Row, ctx: Context, out: Collector[(String, String)]): Unit = {
    if (row.getAs[String]("op") == "w") {
      val next = trip.value().copy(n = trip.value().n + (1L << 40), limit = 8)
      trip.update(next)
      list.add(next)
    }
    out.collect((ctx.getCurrentKey, (trip.value() +: list.get().toSeq).mkString(" ")))
  }
}

class RowSum extends AggregateFunction[Row, Long, Long] {
  override def createAccumulator(): Long = 0
  override def add(row: Row, sum: Long): Long = sum + row.getAs[Long]("value")
  override def getResult(sum: Long): Long = sum
  override def merge(a: Long, b: Long): Long = a + b
}

/** The sum of a window's values, and how many there are. */
class RowSums[W <: Window] extends WindowFunction[Row, (Long, Int), String, W] {
  override def apply(
      key: String,
      window: W,
      rows: Iterable[Row],
      out: Collector[(Long, Int)]
  ): Unit =
    out.collect((rows.map(_.getAs[Long]("value")).sum, rows.size))
}

object Interop {

  /** @param kind
    *   which windows; they are those of test_windows_in_turns
    */
  def windows(rows: DataFrame, kind: Array[String]): DataFrame = {
    val keyed = rows.withWatermark("time", "0 seconds").keyed("key")
    kind.head match {
      case "tumbling" =>
        keyed
          .window(TumblingEventTimeWindows.of(Time.seconds(10)))
          .aggregate(new RowSum)
          .toDF("sum")
      case "sessions" =>
        keyed
          .window(EventTimeSessionWindows.withGap(Time.seconds(10)))
          .allowedLateness(Time.seconds(20))
          .apply(new RowSums[TimeWindow])
          .toDF("sum", "size")
      case "counts" => keyed.countWindow(3, 2).apply(new RowSums[GlobalWindow]).toDF("sum", "size")
    }
  }

  /** @param types
    *   name, DDL and whether it can be a key, of one type after the other
    */
  def copies(rows: DataFrame, types: Array[String]): DataFrame = {
    val parsed = types.toSeq.grouped(3).map(t => (t(0), t(1), t(2) == "True")).toSeq
    rows.keyed("key").process(new Copies(parsed)).toDF("key")
  }

  /** @param types
    *   name and DDL, of one type after the other
    */
  def keeps(rows: DataFrame, types: Array[String]): DataFrame = {
    val parsed = types.toSeq.grouped(2).map(t => (t(0), t(1))).toSeq
    rows.stream.process(new Keeps(parsed)).toDF("seen")
  }

  /** The rates are rows without a customer. */
  def convert(rows: DataFrame): DataFrame = {
    val function = new Convert
    val rates = rows.where("customer is null").selectExpr("currency", "amount")
    rows
      .where("customer is not null")
      .keyed("customer")
      .connect(rates.broadcast(function.descriptor))
      .process(function)
      .toDF("customer", "total", "by")
  }

  def silence(rows: DataFrame): DataFrame = rows
    .withWatermark("at", "0 seconds")
    .keyed("key")
    .process(new Silence)
    .toDF("key", "total", "mean", "text", "time")

  /** @param states
    *   the table of behaviour cases' states, as JSON
    */
  def interpreter(rows: DataFrame, states: Array[String]): DataFrame = rows
    .withWatermark("time", "0 seconds")
    .as[Step](Encoders.product[Step])
    .keyed("name")
    .process(new Interpreter(states.head))
    .toDF("name", "number", "result")

  def trips(rows: DataFrame): DataFrame =
    rows.keyed("key").process(new Trips).toDF("key", "found")

  def ttl(rows: DataFrame): DataFrame =
    rows.keyed("key").process(new TtlStates).toDF("key", "number", "result")
}
