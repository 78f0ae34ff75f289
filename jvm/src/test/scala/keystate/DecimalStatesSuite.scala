package keystate

import java.math.{BigDecimal => JBigDecimal, BigInteger}
import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row

import keystate.stream.WindowedStream
import keystate.windows.{
  CountEvictor, EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows
}

/** A state refuses a number that it can't store as it is, in both modes of Spark's SQL. */
class DecimalStatesSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  /** Checks which values each kind of state keeps, and which it refuses. */
  private def check[T](kept: T*)(refused: T*)(implicit info: TypeInformation[T]): Unit =
    for (ansi <- Seq("false", "true")) withSetting("spark.sql.ansi.enabled", ansi) {
      def run(values: Seq[T]) =
        Seq("a").toDS().keyBy(identity).process(new KeepsDecimals(values)).collect().toSeq
      val taken = run(kept)
      assert(taken.size == kept.size * 6)
      taken.foreach { case (state, value, found) =>
        assert(found == "kept", s"$value in $state, ansi=$ansi")
      }
      val errors = run(refused)
      assert(errors.size == refused.size * 6)
      errors.foreach { case (state, value, found) =>
        val where = s"$value in $state, ansi=$ansi: $found"
        assert(found.contains("[KEYSTATE_STATE_TYPE]") && found.contains(s"state '$state'"), where)
        assert(found.contains(" does not fit decimal("), where)
        // An aggregating state has its first accumulator, and refuses that.
        if (value.toDoubleOption.nonEmpty && state != "aggregating")
          assert(named(found).exists(_ == BigDecimal(value)), where)
      }
    }

  /** The number that an error names. */
  private def named(error: String) =
    """: (\S+) does not fit decimal""".r
      .findFirstMatchIn(error)
      .map(found => BigDecimal(found.group(1)))

  private val big = DecimalStates.TooBig
  private val exact = DecimalStates.TooExact
  private val small: TypeInformation[JBigDecimal] = TypeInformation.ddl("decimal(5,2)")

  test("decimals of a declared precision") {
    def of(text: String) = new JBigDecimal(text)
    check(of("1.2300"), of("999.99"), of("-999.99"), of("1"), of("0"), of("1E+2"))(
      of(big),
      of("-" + big),
      of(exact),
      of("1000.001"),
      of("1E+30")
    )(small)
  }

  test("decimals of Scala and Java, and integers without limits") {
    check(BigDecimal("1.5"), BigDecimal("99999999999999999999.5"))(
      BigDecimal(big + "E+20"),
      BigDecimal(exact + "E-20")
    )
    check(new JBigDecimal("1.5"))(new JBigDecimal(big + "E+20"), new JBigDecimal(exact + "E-20"))
    check(BigInt(10).pow(38) - 1)(BigInt(10).pow(38))
    check(BigInteger.TEN.pow(37))(BigInteger.TEN.pow(38))
  }

  test("keys that functions make") {
    for (ansi <- Seq("false", "true")) withSetting("spark.sql.ansi.enabled", ansi) {
      def keys(key: Int => BigDecimal): Seq[String] =
        Seq(1, 2).toDS().keyBy(key).map(n => s"$n").collect().sorted.toSeq
      assert(keys(n => BigDecimal(n) / 4) == Seq("1", "2"))
      Seq(big + "E+20", exact + "E-20").foreach { text =>
        val error = intercept[Exception](keys(_ => BigDecimal(text)))
        val causes = Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null)
        assert(causes.exists(_.getMessage.contains("[KEYSTATE_KEY_TYPE] The key")), s"$text, $ansi")
      }
      val many = exact + "E-20"
      val within = intercept[Exception] {
        Seq(1).toDS().keyBy(n => (n, BigDecimal(many))).map(n => s"$n").collect()
      }
      assert(within.getMessage.contains("KEYSTATE_KEY_TYPE"))
    }
  }

  test("decimals within other values") {
    val many = BigDecimal(exact + "E-20")
    check(Offer(1, Some(2), Some(3)), Offer(1, None, None))(
      Offer(many, None, None),
      Offer(1, Some(many), None),
      Offer(1, None, Some(BigInt(10).pow(40)))
    )
    check[Option[BigDecimal]](Some(1), None)(Some(many))
    check(Seq(BigDecimal(1)))(Seq(BigDecimal(1), many))
    check(Map("a" -> BigDecimal(1)))(Map("a" -> many))
    check(Map(BigDecimal(1) -> "a"))(Map(many -> "a"))
    check((1, (BigDecimal(1), "a")))((1, (many, "a")))
    check(Array(BigDecimal(1)))(Array(many))
    check(Row(new JBigDecimal("1.10"), Seq(new JBigDecimal(1))))(
      Row(new JBigDecimal(exact), Nil),
      Row(null, Seq(new JBigDecimal(big)))
    )(TypeInformation.ddl("d decimal(5,2), more array<decimal(5,2)>"))
  }

  test("keys of maps, broadcast state and defaults") {
    val keys = new MapStateDescriptor("keys", small, implicitly[TypeInformation[String]])
    for (ansi <- Seq("false", "true")) withSetting("spark.sql.ansi.enabled", ansi) {
      val in = Seq(1).toDS().keyBy(identity)
      val found = in.process(new DecimalKeys(small)).collect().toSeq
      assert(found.dropRight(1).forall(_.contains("[KEYSTATE_STATE_TYPE]")), found)
      assert(found.last == "1.20")
      val told = in.connect(Seq(1).toDS().broadcast(keys)).process(new BroadcastsDecimals(keys))
      assert(told.collect().forall(_.contains("[KEYSTATE_STATE_TYPE]")))
      def refused(make: => Any) =
        assert(intercept[Exception](make).getMessage.contains("STATE_TYPE"))
      refused(in.process(new DecimalDefault(new JBigDecimal(big))(small)).collect())
      refused(in.process(new DecimalDefault(Offer(BigDecimal(big + "E+20"), None, None))).collect())
    }
  }

  test("accumulators of windows") {
    val read = Seq("a" -> new Timestamp(0)).toDS().keyBy(_._1)
    val tumbling = read.window(TumblingEventTimeWindows.of(Time.seconds(1)), eventTime = "_2")
    val sessions = read.window(EventTimeSessionWindows.withGap(Time.seconds(1)), eventTime = "_2")
    val fit = new JBigDecimal("1.5")
    for (ansi <- Seq("false", "true")) withSetting("spark.sql.ansi.enabled", ansi) {
      def errorOf(
          windows: WindowedStream[(String, Timestamp), String, TimeWindow]
      )(first: JBigDecimal, later: JBigDecimal): String = {
        val aggregate = new FixedAccumulators(first, later)
        intercept[Exception](windows.aggregate(aggregate)(small, implicitly).collect()).getMessage
      }
      for (text <- Seq(big, exact)) {
        val misfit = new JBigDecimal(text)
        for (windows <- Seq(tumbling, tumbling.allowedLateness(Time.seconds(1)), sessions)) {
          val stored = errorOf(windows)(fit, misfit)
          assert(stored.contains("[KEYSTATE_STATE_TYPE]") && stored.contains("-contents'"), stored)
          checkFirst(errorOf(windows)(misfit, fit))
        }
        // No state has it, but it is copied.
        checkFirst(errorOf(tumbling.evictor(CountEvictor.of[(String, Timestamp)](1)))(misfit, fit))
      }
    }
    def checkFirst(error: String) = {
      assert(error.contains("[KEYSTATE_STATE_TYPE]"), error)
      assert(error.contains("keystate.FixedAccumulators creates"), error)
      assert(error.contains("DECIMAL(5,2): ") && error.contains(" does not fit decimal("), error)
    }
  }
}

/** Has one accumulator for no elements, and one for some. */
class FixedAccumulators(first: JBigDecimal, later: JBigDecimal)
    extends AggregateFunction[(String, Timestamp), JBigDecimal, String] {
  override def createAccumulator(): JBigDecimal = first
  override def add(value: (String, Timestamp), accumulator: JBigDecimal): JBigDecimal = later
  override def getResult(accumulator: JBigDecimal): String = accumulator.toString
  override def merge(a: JBigDecimal, b: JBigDecimal): JBigDecimal = a
}

object DecimalStates {
  final val TooBig = "1000.00"
  final val TooExact = "1.239"

  def told(call: => Any): String =
    try {
      val _ = call
      "kept"
    } catch { case e: KeystateException => e.getMessage }
}

final case class Offer(price: BigDecimal, least: Option[BigDecimal], count: Option[BigInt])

/** Gives each value to states of several kinds: the state, the value, and what came of it. */
class KeepsDecimals[T: TypeInformation](values: Seq[T])
    extends KeyedProcessFunction[String, String, (String, String, String)]
    with CheckpointedFunction {
  @transient private var value: ValueState[T] = _
  @transient private var list, kept: ListState[T] = _
  @transient private var map: MapState[Long, T] = _
  @transient private var reducing: ReducingState[T] = _
  @transient private var aggregating: AggregatingState[T, T] = _

  override def initializeState(context: FunctionInitializationContext): Unit = {
    val keyed = context.getKeyedStateStore
    value = keyed.getState(ValueStateDescriptor[T]("value"))
    list = keyed.getListState(ListStateDescriptor[T]("list"))
    map = keyed.getMapState(MapStateDescriptor[Long, T]("map"))
    val second: ReduceFunction[T] = (_, b) => b
    reducing = keyed.getReducingState(ReducingStateDescriptor("reducing", second))
    aggregating = keyed.getAggregatingState(
      AggregatingStateDescriptor[T, T, T]("aggregating", new LastOf(values.head))
    )
    kept = context.getOperatorStateStore.getListState(ListStateDescriptor[T]("operator list"))
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = ()

  override def processElement(
      in: String,
      ctx: Context,
      out: Collector[(String, String, String)]
  ): Unit =
    for (each <- values) {
      def use(name: String)(call: => Any): Unit =
        out.collect((name, each.toString, DecimalStates.told(call)))
      use("value")(value.update(each))
      use("list")(list.addAll(Seq(each)))
      use("map")(map.put(1, each))
      use("reducing")(reducing.add(each))
      use("aggregating")(aggregating.add(each))
      use("operator list")(kept.add(each))
    }
}

/** Uses keys that do not fit, and tells what the map has then. */
class DecimalKeys(of: TypeInformation[JBigDecimal]) extends KeyedProcessFunction[Int, Int, String] {
  @transient private var map: SortedMapState[JBigDecimal, String] = _

  override def open(ctx: RuntimeContext): Unit = {
    val text = implicitly[TypeInformation[String]]
    map = ctx.getSortedMapState(new SortedMapStateDescriptor("map", KeyOrder.NATURAL, of, text))
  }

  override def processElement(in: Int, ctx: Context, out: Collector[String]): Unit = {
    map.put(new JBigDecimal("1.2000"), "a")
    for (key <- Seq(DecimalStates.TooBig, DecimalStates.TooExact).map(new JBigDecimal(_))) {
      out.collect(DecimalStates.told(map.put(key, "b")))
      out.collect(DecimalStates.told(map.get(key)))
      out.collect(DecimalStates.told(map.headIterator(key)))
    }
    out.collect(map.keys().mkString(","))
  }
}

class BroadcastsDecimals(state: MapStateDescriptor[JBigDecimal, String])
    extends KeyedBroadcastProcessFunction[Int, Int, Int, String] {
  override def processBroadcastElement(n: Int, ctx: Context, out: Collector[String]): Unit = {
    val texts = ctx.getBroadcastState(state)
    val told = DecimalStates.told(texts.put(new JBigDecimal(DecimalStates.TooBig), ""))
    texts.put(JBigDecimal.ONE, told)
  }

  override def processElement(n: Int, ctx: ReadOnlyContext, out: Collector[String]): Unit =
    ctx.getBroadcastState(state).values().foreach(out.collect)
}

class DecimalDefault[T: TypeInformation](default: T)
    extends KeyedProcessFunction[Int, Int, String] {
  @transient private var value: ValueState[T] = _

  override def open(ctx: RuntimeContext): Unit =
    value = ctx.getState(ValueStateDescriptor("value", default))

  override def processElement(in: Int, ctx: Context, out: Collector[String]): Unit =
    out.collect(s"${value.value()}")
}
