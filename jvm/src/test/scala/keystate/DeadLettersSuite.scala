package keystate

import java.sql.Timestamp
import java.time.Instant

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.functions.{coalesce, concat, lit}
import org.apache.spark.sql.types.{DataType, StructType}

import keystate.errors.KeystateException
import keystate.testing.{
  KeyedBroadcastOperatorTestHarness, KeyedOneInputStreamOperatorTestHarness,
  KeyedTwoInputStreamOperatorTestHarness, Named, Numbered
}

final case class Part(key: String, number: Int, time: Timestamp)

/** Changes all kinds of state, timers and outputs; then fails where told. */
class Changing(fails: Part => Boolean) extends KeyedProcessFunction[String, Part, String] {
  @transient private var value: ValueState[Long] = _
  @transient private var list: ListState[Int] = _
  @transient private var map: MapState[Int, String] = _
  @transient private var sorted: SortedMapState[Int, Int] = _
  @transient private var sum: ReducingState[Int] = _

  override def open(ctx: RuntimeContext): Unit = {
    value = ctx.getState(ValueStateDescriptor("value", 0L))
    list = ctx.getListState(ListStateDescriptor[Int]("list"))
    map = ctx.getMapState(MapStateDescriptor[Int, String]("map"))
    sorted = ctx.getSortedMapState(SortedMapStateDescriptor[Int, Int]("sorted"))
    sum = ctx.getReducingState(ReducingStateDescriptor[Int]("sum", _ + _))
  }

  override def processElement(part: Part, ctx: Context, out: Collector[String]): Unit = {
    value.update(value.value() + part.number)
    list.add(part.number)
    if (part.number == 4) list.clear()
    map.put(part.number, part.key)
    map.remove(1)
    sorted.put(part.number, 1)
    sorted.remove(2)
    sum.add(part.number)
    ctx.timerService().registerEventTimeTimer(part.number.toLong * 100)
    ctx.timerService().deleteEventTimeTimer(100)
    out.collect(told)
    ctx.output(Changing.side, part.number)
    if (fails(part)) throw new IllegalStateException(s"number ${part.number}")
  }

  private def told = Seq[Any](
    value.value(),
    list.get().mkString(","),
    map.keys().toSeq.sorted.mkString(","),
    sorted.entries().map(_.getKey).mkString(","),
    sum.get()
  ).mkString(" ")

  override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[String]): Unit = {
    out.collect(s"timer $time $told")
    value.clear()
    if (time == 700) throw new IllegalArgumentException("timer")
  }
}

object Changing {
  val side: OutputTag[Int] = OutputTag[Int]("side")
  val ofThree: Part => Boolean = _.number % 3 == 0
}

/** Fails for both inputs by what they have, and keeps what it was given. */
class FailingCo extends KeyedCoProcessFunction[String, Numbered, Named, (String, String)] {
  @transient private var last: ValueState[String] = _

  override def open(ctx: RuntimeContext): Unit =
    last = ctx.getState(ValueStateDescriptor[String]("last"))

  override def processElement1(in: Numbered, ctx: Context, out: Collector[(String, String)]): Unit =
    handle(in.key, s"${in.number}", out)
  override def processElement2(in: Named, ctx: Context, out: Collector[(String, String)]): Unit =
    handle(in.id, in.text, out)

  private def handle(key: String, text: String, out: Collector[(String, String)]): Unit = {
    out.collect((key, s"${last.value()} $text"))
    last.update(text)
    if (text == "13") throw new RuntimeException("unlucky")
  }
}

/** What tests/contract/test_dead_letters.py says of Python's functions. */
class DeadLettersSuite extends AnyFunSuite with SessionFixture {
  private val dead = OutputTag[DeadLetter[Part]]("dead")
  private val json = OutputTag[DeadLetter[String]]("dead")

  override def beforeAll(): Unit = {
    super.beforeAll()
    val _ = spark // the harness takes the session that there is
  }

  private def part(key: String, number: Int) = Part(key, number, new Timestamp(number.toLong))

  private def build(letters: Option[DeadLetters[_]], fails: Part => Boolean)(in: Dataset[Part]) = {
    val keyed = in.withWatermark("time", "0 seconds").keyBy(_.key)
    letters.fold(keyed)(keyed.onError).process(new Changing(fails))
  }

  private def harness(
      letters: Option[DeadLetters[_]],
      fails: Part => Boolean,
      backend: String = "hashmap"
  ) = new KeyedOneInputStreamOperatorTestHarness[Part, String](
    build(letters, fails),
    parallelism = 2,
    sideOutputs = Seq[OutputTag[_]](Changing.side) ++ letters.map(_.tag),
    backend = backend
  )

  private val fails = Changing.ofThree

  for (backend <- Seq("hashmap", "rocksdb")) test(s"what a failure did is undone, on $backend") {
    val failing = harness(Some(DeadLetters(dead)), fails, backend)
    val without = harness(None, _ => false, backend)
    try {
      val batches = Seq(1 to 4, 5 to 9, 2 to 6).map(_.flatMap(n => Seq(part("a", n), part("b", n))))
      for (batch <- batches) {
        assert(failing.processBatch(batch) == without.processBatch(batch.filterNot(fails)))
        assert(failing.numKeyedStateEntries == without.numKeyedStateEntries)
        assert(failing.numEventTimeTimers == without.numEventTimeTimers)
      }
      assert(failing.getSideOutput(Changing.side) == without.getSideOutput(Changing.side))
      val letters = failing.getSideOutput(dead)
      assert(letters.map(_.row).toSet == batches.flatten.filter(fails).toSet)
      assert(letters.map(_.id).distinct.size == letters.size && letters.size == 10)
      val first = letters.find(letter => letter.row == part("b", 3)).get
      assert(first.key == "\"b\"" && first.error == "java.lang.IllegalStateException")
      assert(first.message == "number 3" && first.input == null && first.timer == null)
      assert(first.traceback.linesIterator.toSeq(1).contains("Changing.processElement"))
      assert(!first.traceback.contains("OpenedFunction"))
      assert(first.batch != null && first.time == new Timestamp(0))
    } finally {
      failing.close()
      without.close()
    }
  }

  test("a timer that fails is gone, and what it did is undone") {
    val failing = harness(Some(DeadLetters(dead)), _ => false)
    try {
      failing.processBatch(Seq(part("a", 7), part("a", 8)))
      assert(failing.processWatermark(900) == Seq("timer 800 15 7,8 7,8 7,8 15"))
      val letter = failing.getSideOutput(dead).head
      assert(letter.row == null && letter.timer == 700 && letter.timerDomain == "event_time")
      assert(failing.numEventTimeTimers == 0)
    } finally failing.close()
  }

  test("limits, and errors that are not the row's") {
    def summary(letters: DeadLetters[Part], fails: Part => Boolean, numbers: Int*) = {
      val failing = harness(Some(letters), fails)
      try {
        val before = failing.processElement(part("a", 1))
        val error = intercept[KeystateException](failing.processBatch(numbers.map(part("a", _))))
        assert(before.size == 1 && failing.numKeyedStateEntries("value") == 1)
        error
      } finally failing.close()
    }
    for (
      (letters, numbers, told) <- Seq(
        (DeadLetters(dead, maxInBatch = Some(1)), Seq(3, 4, 6), "more than maxInBatch=1"),
        (DeadLetters(dead, maxInARow = Some(1)), Seq(3, 6), "more than maxInARow=1"),
        (DeadLetters(dead, maxShare = Some(0.4)), Seq(3, 4), "of 2, more than maxShare=0.4")
      )
    ) {
      val error = summary(letters, fails, numbers: _*)
      assert(error.code == "KEYSTATE_TOO_MANY_DEAD_LETTERS" && error.getMessage.contains(told))
      assert(error.getMessage.contains("first for key \"a\": number 3"))
    }
    val fine = harness(Some(DeadLetters(dead, maxInARow = Some(1), maxShare = Some(0.5))), fails)
    fine.processBatch(Seq(3, 4, 6, 7).map(part("a", _)))
    fine.close()
    intercept[KeystateException](DeadLetters(dead, maxShare = Some(2)))
    intercept[KeystateException](DeadLetters(dead, maxInBatch = Some(-1)))
  }

  test("of two inputs the letters have JSON, and say which input it was") {
    val failing = new KeyedTwoInputStreamOperatorTestHarness[Numbered, Named, (String, String)](
      (first, second) =>
        first
          .keyBy(_.key)
          .onError(DeadLetters(json))
          .connect(second.keyBy(_.id))
          .process(new FailingCo),
      sideOutputs = Seq(json)
    )
    try {
      failing.processBatch(
        Seq(Numbered("a", 1, null), Numbered("a", 13, null)),
        Seq(Named(null, "x", "a"), Named(Timestamp.from(Instant.ofEpochSecond(0, 1000)), "13", "a"))
      )
      assert(failing.extractOutputValues() == Seq(("a", "null 1"), ("a", "1 x")))
      val letters = failing.getSideOutput(json)
      val (one, two) = (letters(0), letters(1))
      assert(one.row == """{"key":"a","number":13,"time":null}""" && one.input == 1)
      val micros = "1970-01-01T00:00:00.000001Z"
      assert(two.row == s"""{"time":"$micros","text":"13","id":"a"}""" && two.input == 2)
    } finally failing.close()
  }

  test("rows of a stream with broadcast elements, whose own errors fail the query") {
    val tag = OutputTag[DeadLetter[Sale]]("dead")
    val failing = new KeyedBroadcastOperatorTestHarness[Sale, Rule, (Long, String, Int)](
      (sales, rules) =>
        sales.stream
          .onError(DeadLetters(tag))
          .connect(rules.broadcast(Descriptors.rules))
          .process(new Tags("unknown")),
      sideOutputs = Seq(tag)
    )
    try {
      val error = intercept[KeystateException](failing.processElement(Sale(1, "a", 1)))
      assert(error.code == "KEYSTATE_DECLARATION", "an error of Keystate's own is not the row's")
    } finally failing.close()
  }

  test("a tag of other rows") {
    import spark.implicits._
    val parts = Seq(part("a", 1)).toDS()
    def refused(build: => Any) = {
      val error = intercept[KeystateException](build)
      assert(error.code == "KEYSTATE_DECLARATION")
      error.getMessage
    }
    val other = OutputTag[DeadLetter[Sale]]("dead")
    assert(
      refused(parts.keyBy(_.key).onError(DeadLetters(other)).map((p: Part) => p))
        .contains("struct<key:string,number:int,time:timestamp>")
    )
  }

  test("in a query: counted, written, and the same after a restart") {
    import spark.implicits._
    val stream = new Stream[Part]("letters")
    def run(numbers: Int*): Seq[String] = stream.run { in =>
      build(Some(DeadLetters(dead)), fails)(in)
        .withSideOutputs(dead)
        .select(coalesce($"main.value", concat(lit("letter "), $"dead.row.number")))
        .as[String]
    }(numbers.map(part("a", _)))
    assert(run(1, 3, 2).size == 3)
    assert(run(6, 5).toSet == Set("letter 6", "8 1,2,5 2,5 1,5 8"))
    val counted =
      stream.progress.map(_.stateOperators.head.customMetrics.get("keystateDeadLetters"))
    assert(counted.map(_.toLong).sum == 1)
  }

  test("letters have the columns of Python's") {
    val python = "id string, key string, row struct<key: string, number: int, time: timestamp>, " +
      "input int, timer bigint, timer_domain string, error string, message string, " +
      "traceback string, batch bigint, time timestamp"
    val columns = dead.typeInfo.encoder.schema
    def plain(kind: StructType) = kind.fields.map(f => (f.name, f.dataType.catalogString)).toSeq
    assert(plain(columns) == plain(DataType.fromDDL(python).asInstanceOf[StructType]))
  }
}
