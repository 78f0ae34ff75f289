package keystate

import scala.annotation.nowarn

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkException
import org.apache.spark.sql.Dataset

/** Case classes as they are in one run. */
object Before {
  final case class Item(p: Int)
  final case class Visit(
      n: Int,
      gone: String,
      ratio: Float,
      items: Seq[Item],
      by: Map[String, Item]
  )
  final case class Count(n: Int)
  final case class Maybe(n: Option[Int])
  final case class Range(low: Int)
  final case class Plan(range: Range, listed: Seq[Range])
}

/** The same in the next one: with fields in another order, wider, without `gone`, and with others. */
object After {
  final case class Item(q: Option[String], p: Long)
  final case class Limits(low: Int, high: Int = 9)
  final case class Visit(
      by: Map[String, Item],
      items: Seq[Item],
      ratio: Double,
      added: String,
      n: Long,
      limit: Int = 7,
      names: Seq[String] = Seq("none"),
      limits: Limits = Limits(1)
  )
  final case class Count(n: Long, limit: Int = 7)
  final case class Maybe(n: Int)
  final case class Range(low: Int, high: Int = 3)
  final case class Plan(range: Range = Range(1, 9), listed: Seq[Range] = Seq(Range(1, 8)))
}

/** Changes that old state can't be read through. */
object Refused {
  final case class Text(n: String)
  final case class Narrow(n: Short)
  final case class Fraction(n: Double)
  final case class NotNull(n: Int, m: Long)
}

/** Keeps one value in a state of every kind; `w` writes it, `r` only reads. */
@nowarn("cat=deprecation")
class Keeper[T](written: T, default: T)(implicit valueType: TypeInformation[T])
    extends KeyedProcessFunction[String, (String, String), (String, String)] {
  @transient private var value: ValueState[T] = _
  @transient private var list: ListState[T] = _
  @transient private var reducing: ReducingState[T] = _
  @transient private var aggregating: AggregatingState[T, T] = _
  @transient private var folding: FoldingState[T, T] = _
  @transient private var map: MapState[String, T] = _
  @transient private var sorted: SortedMapState[Long, T] = _

  override def open(ctx: RuntimeContext): Unit = {
    value = ctx.getState(ValueStateDescriptor("value", default))
    list = ctx.getListState(ListStateDescriptor[T]("list"))
    reducing = ctx.getReducingState(ReducingStateDescriptor[T]("reducing", (_, b) => b))
    aggregating =
      ctx.getAggregatingState(AggregatingStateDescriptor("aggregating", new LastOf(written)))
    folding = ctx.getFoldingState(
      FoldingStateDescriptor[T, T]("folding", null.asInstanceOf[T], (_, b) => b)
    )
    map = ctx.getMapState(MapStateDescriptor[String, T]("map"))
    sorted = ctx.getSortedMapState(SortedMapStateDescriptor[Long, T]("sorted"))
  }

  override def processElement(
      in: (String, String),
      ctx: Context,
      out: Collector[(String, String)]
  ): Unit = {
    if (in._2 == "w") {
      value.update(written)
      list.add(written)
      reducing.add(written)
      aggregating.add(written)
      folding.add(written)
      map.put("k", written)
      sorted.put(-1L, written)
    }
    Seq(
      "value" -> value.value(),
      "list" -> list.get().mkString("|"),
      "reducing" -> reducing.get(),
      "aggregating" -> aggregating.get(),
      "folding" -> folding.get(),
      "map" -> map.get("k"),
      "sorted" -> sorted.get(-1L)
    ).foreach { case (state, found) => out.collect(state -> s"$found") }
  }
}

class LastOf[T](start: T) extends AggregateFunction[T, T, T] {
  override def createAccumulator(): T = start
  override def add(value: T, accumulator: T): T = value
  override def getResult(accumulator: T): T = accumulator
  override def merge(a: T, b: T): T = b
}

/** A value state of one type, or the like. */
class States(declare: RuntimeContext => Any) extends RichFlatMapFunction[(String, String), Int] {
  override def open(ctx: RuntimeContext): Unit = {
    declare(ctx)
    ()
  }
  override def flatMap(in: (String, String), out: Collector[Int]): Unit = out.collect(1)
}

/** The types of states change between runs, and what was stored before is read all the same. */
class SchemaEvolutionSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val old = Before.Visit(
    1,
    "secret",
    0.5f,
    Seq(Before.Item(2), null),
    Map("k" -> Before.Item(Int.MinValue))
  )
  private val oldRead = After.Visit(
    Map("k" -> After.Item(None, Int.MinValue.toLong)),
    Seq(After.Item(None, 2), null),
    0.5,
    null,
    1
  )
  private val written = After.Visit(
    Map.empty,
    Seq(After.Item(Some("q"), 1L << 40)),
    0.1,
    "more",
    1L << 50,
    8,
    Nil,
    After.Limits(2, 3)
  )

  private def keeper[T: TypeInformation](written: T, default: T = null)(
      in: Dataset[(String, String)]
  ) = in.keyBy(_._1).process(new Keeper(written, default))

  private def expected(listed: Any*): Map[String, String] =
    Seq("value", "reducing", "aggregating", "folding", "map", "sorted")
      .map(_ -> s"${listed.last}")
      .toMap + ("list" -> listed.mkString("|"))

  Seq("hashmap", "rocksdb").foreach { backend =>
    test(s"fields are added, removed, widened and reordered, in every kind of state: $backend") {
      withSetting("spark.keystate.backend", backend) {
        val stream = new Stream[(String, String)](s"kinds-$backend")
        assert(stream.run(keeper(old))(Seq("a" -> "w")).toMap == expected(old))
        assert(stream.run(keeper(written))(Seq("a" -> "r")).toMap == expected(oldRead))
        // Entries of both types, in one batch and in one list.
        val both = stream.run(keeper(written))(Seq("a" -> "w"), Seq("a" -> "r"))
        assert(both.takeRight(7).toMap == expected(oldRead, written))
      }
    }
  }

  test("a field that is new has the default of the whole value before that of the class") {
    val stream = new Stream[(String, String)]("whole")
    def values(out: Seq[(String, String)]) = out.collect { case ("value", value) => value }
    stream.run(keeper(Before.Count(1)))(Seq("a" -> "w"))
    val whole = After.Count(5, 99)
    val found = stream.run(keeper(whole, whole))(Seq("a" -> "r"), Seq("b" -> "r"))
    assert(values(found) == Seq("Count(1,99)", "Count(5,99)"))
    // It is kept: another default later changes nothing that was stored before.
    val later = stream.run(keeper(whole, After.Count(5, 11)))(Seq("a" -> "r"), Seq("c" -> "r"))
    assert(values(later) == Seq("Count(1,99)", "Count(5,11)"))
  }

  test("a field inside a struct has the default of that struct in the whole value") {
    Seq[(After.Plan, Int)]((null, 9), (After.Plan(After.Range(1, 7)), 7)).foreach {
      case (default, high) =>
        val stream = new Stream[(String, String)](s"inside-$high")
        stream.run(keeper(Before.Plan(Before.Range(2), Seq(Before.Range(5)))))(Seq("a" -> "w"))
        val found = stream.run(keeper[After.Plan](null, default))(Seq("a" -> "r"))
        // An element of a list in the default stands for no other element.
        assert(found.toMap.apply("value") == s"Plan(Range(2,$high),List(Range(5,3)))")
    }
  }

  test("a stored null of a field that may no longer be null is an error when it is read") {
    def stored(n: Option[Int]) = {
      val stream = new Stream[(String, String)](s"maybe-$n")
      stream.run(keeper(Before.Maybe(n)))(Seq("a" -> "w"))
      stream
    }
    val reads = keeper[After.Maybe](null) _
    assert(stored(Some(1)).run(reads)(Seq("a" -> "r")).toMap.apply("value") == "Maybe(1)")
    val failure = intercept[Exception](stored(None).run(reads)(Seq("a" -> "r")))
    val causes = Iterator.iterate[Throwable](failure)(_.getCause).takeWhile(_ != null)
    assert(causes.exists(_.getMessage.contains("NOT_NULL_ASSERT_VIOLATION")), failure)
  }

  private def declaring(declare: RuntimeContext => Any)(in: Dataset[(String, String)]) =
    in.keyBy(_._1).flatMap(new States(declare))

  test("any other change is refused at the start, with both types") {
    val stream = new Stream[(String, String)]("refused")
    stream.run(declaring { ctx =>
      ctx.getState(ValueStateDescriptor[Before.Count]("count"))
      ctx.getMapState(MapStateDescriptor[Long, Int]("map"))
    })(Seq("a" -> ""))
    Seq[(RuntimeContext => Any, Seq[String])](
      ((ctx: RuntimeContext) => ctx.getState(ValueStateDescriptor[Refused.Text]("count"))) ->
        Seq("STRUCT<n: STRING>", "Field 'n' of the value was INT and can't become STRING"),
      ((ctx: RuntimeContext) => ctx.getState(ValueStateDescriptor[Refused.Narrow]("count"))) ->
        Seq("STRUCT<n: SMALLINT", "was INT and can't become SMALLINT"),
      ((ctx: RuntimeContext) => ctx.getState(ValueStateDescriptor[Refused.Fraction]("count"))) ->
        Seq("STRUCT<n: DOUBLE", "was INT and can't become DOUBLE"),
      ((ctx: RuntimeContext) => ctx.getState(ValueStateDescriptor[Refused.NotNull]("count"))) ->
        Seq("m: BIGINT", "Field 'm' of the value is new and must not be null: give it a default"),
      ((ctx: RuntimeContext) => ctx.getState(ValueStateDescriptor[Long]("count"))) ->
        Seq("value<BIGINT>"),
      ((ctx: RuntimeContext) => ctx.getListState(ListStateDescriptor[Before.Count]("count"))) ->
        Seq("list<STRUCT<n: INT", "another kind"),
      ((ctx: RuntimeContext) => ctx.getMapState(MapStateDescriptor[Int, Int]("map"))) ->
        Seq("map<BIGINT, INT>", "map<INT, INT>", "keys can't change")
    ).foreach { case (declare, parts) =>
      val failure = intercept[Exception](stream.run(declaring(declare))(Seq("a" -> "")))
      val text = failure.getMessage
      assert(text.contains("KEYSTATE_STATE_CHANGED"), failure)
      if (!parts.exists(_.startsWith("map<"))) assert(text.contains("value<STRUCT<n: INT"))
      parts.foreach(part => assert(text.contains(part)))
      assert(
        !Iterator
          .iterate[Throwable](failure)(_.getCause)
          .takeWhile(_ != null)
          .exists(e => e.isInstanceOf[SparkException] && e.getMessage.contains("Task")),
        "no task ran"
      )
    }
    // The checkpoint is as it was.
    val count = declaring(_.getState(ValueStateDescriptor[After.Count]("count"))) _
    assert(stream.run(count)(Seq("a" -> "")).size == 8)
  }
}
