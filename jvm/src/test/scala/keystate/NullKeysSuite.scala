package keystate

import java.sql.{Date, Timestamp}

import org.scalatest.funsuite.AnyFunSuite

import keystate.NullKeys.codeOf
import keystate.windows.{
  ProcessWindowFunction, TimeWindow, TumblingEventTimeWindows, WindowRuntimeContext
}

/** No entry of a map has the key null, and an option that is none is null. */
class NullKeysSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private def check[K: TypeInformation](none: K, some: K) = {
    val found = Seq("a").toDS().keyBy(identity).process(new UsesNoKey(none, some)).collect().toMap
    assert(found.getOrElse("entries", "") == "1,1", s"$some $found")
    assert((found - "entries").values.toSet == Set("KEYSTATE_NULL_KEY"), s"$some $found")
  }

  test("maps and sorted maps refuse a key of null or none, whatever its type") {
    check[java.lang.Long](null, 0L)
    check[String](null, "")
    check(None, Some(0))
    check(None, Some(0L))
    check(None, Some(0.toShort))
    check(None, Some(0.toByte))
    check(None, Some(0.0))
    check(None, Some(0.0f))
    check(None, Some(false))
    check(None, Some(new Date(0)))
    check(None, Some(new Timestamp(0)))
    check(None, Some(""))
    check(None, Some(BigDecimal(0)))
    check(None, Some(Array[Byte]()))
    check(None, Some(Seq(0)))
    check[Option[java.math.BigDecimal]](None, Some(java.math.BigDecimal.ZERO))
  }

  test("broadcast state refuses a key of none") {
    val codes = MapStateDescriptor[Option[Int], String]("codes")
    val stream = Seq(1).toDS().keyBy(identity).connect(Seq(1).toDS().broadcast(codes))
    val found = stream.process(new BroadcastsNoKey(codes)).collect().toSeq
    assert(found == Seq("KEYSTATE_NULL_KEY", "KEYSTATE_NULL_KEY", "null"))
  }

  test("a window's map refuses a key of none") {
    val found = Seq(("a", new Timestamp(0)))
      .toDS()
      .keyBy(_._1)
      .window(TumblingEventTimeWindows.of(Time.seconds(10)), eventTime = "_2")
      .process(new WindowNoKey)
    assert(found.collect().toSeq == Seq("KEYSTATE_NULL_KEY"))
  }
}

object NullKeys {
  def codeOf(call: => Any): String =
    try {
      val _ = call
      "no error"
    } catch { case e: KeystateException => e.code }
}

/** Puts a key into maps, and uses none in all ways. */
class UsesNoKey[K: TypeInformation](none: K, some: K)
    extends KeyedProcessFunction[String, String, (String, String)] {
  @transient private var map: MapState[K, Long] = _
  @transient private var sorted: SortedMapState[K, Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    map = ctx.getMapState(MapStateDescriptor[K, Long]("map"))
    sorted = ctx.getSortedMapState(SortedMapStateDescriptor[K, Long]("sorted"))
  }

  override def processElement(in: String, ctx: Context, out: Collector[(String, String)]): Unit = {
    map.put(some, 1)
    sorted.put(some, 1)
    def use(name: String)(call: => Any): Unit = out.collect(name -> codeOf(call))
    use("get")(map.get(none))
    use("put")(map.put(none, 2))
    use("contains")(map.contains(none))
    use("remove")(map.remove(none))
    use("sorted put")(sorted.put(none, 2))
    use("head")(sorted.headIterator(none))
    use("tail")(sorted.tailIterator(none))
    use("sub")(sorted.subIterator(none, some))
    use("floor")(sorted.floorEntry(none))
    use("removeRange")(sorted.removeRange(none, some))
    out.collect("entries" -> s"${map.keys().size},${sorted.keys().size}")
  }
}

class BroadcastsNoKey(state: MapStateDescriptor[Option[Int], String])
    extends KeyedBroadcastProcessFunction[Int, Int, Int, String] {
  override def processBroadcastElement(n: Int, ctx: Context, out: Collector[String]): Unit = {
    val codes = ctx.getBroadcastState(state)
    codes.put(Some(1), codeOf(codes.put(None, "none")))
  }

  override def processElement(n: Int, ctx: ReadOnlyContext, out: Collector[String]): Unit = {
    val codes = ctx.getBroadcastState(state)
    out.collect(codes.get(Some(1)))
    out.collect(codeOf(codes.get(None)))
    out.collect(String.valueOf(codes.get(Some(0))))
  }
}

class WindowNoKey extends ProcessWindowFunction[(String, Timestamp), String, String, TimeWindow] {
  @transient private var map: MapState[Option[Int], Long] = _

  override def open(context: WindowRuntimeContext): Unit =
    map = context.windowState.getMapState(MapStateDescriptor[Option[Int], Long]("map"))

  override def process(
      key: String,
      context: Context,
      elements: Iterable[(String, Timestamp)],
      out: Collector[String]
  ): Unit = out.collect(codeOf(map.put(None, 1)))
}
