package keystate.windows

import java.sql.Timestamp
import java.time.Duration

import org.json4s._
import org.json4s.jackson.JsonMethods
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.{Dataset, Encoder, Row}

import keystate.errors.{ErrorCode, KeystateException}
import keystate.stream.WindowedDataset
import keystate.{AggregateFunction, Collector, OutputTag, SessionFixture, TypeInformation}
import org.apache.spark.sql.keystate.jvm.testing.{TestedInput, TestedInputs, TestedOperator}

final case class WindowTotal(key: String, total: Long, start: java.lang.Long, last: java.lang.Long)

/** The total of elements, or of the one sum that there is, with the window. */
class Totals[IN, W <: Window] extends ProcessWindowFunction[IN, WindowTotal, String, W] {
  override def process(
      key: String,
      context: Context,
      elements: Iterable[IN],
      out: Collector[WindowTotal]
  ): Unit = {
    val total = elements.map {
      case bought: Purchase => bought.value
      case sum: Long => sum
      case other => fail(other)
    }.sum
    out.collect((context.window: Window) match {
      case TimeWindow(start, end) => WindowTotal(key, total, start, end - 1)
      case _: GlobalWindow => WindowTotal(key, total, null, null)
    })
  }

  private def fail(element: Any) = throw new IllegalArgumentException(s"$element")
}

class Sum extends AggregateFunction[Purchase, Long, Long] {
  override def createAccumulator(): Long = 0
  override def add(value: Purchase, accumulator: Long): Long = accumulator + value.value
  override def getResult(accumulator: Long): Long = accumulator
  override def merge(first: Long, second: Long): Long = first + second
}

/** The table of window cases, which Python's windows pass too. */
class WindowCasesSuite extends AnyFunSuite with SessionFixture {
  import WindowTable._
  import spark.implicits._

  private val late = OutputTag[Purchase]("late")
  private val table = WindowTable.read("window_cases")

  private type Build = WindowedDataset[Purchase, Window] => Dataset[_]

  private val builds: Map[String, Build] = Map(
    "process" -> (_.process(new Totals[Purchase, Window])),
    "reduce" -> (_.reduce(
      (a: Purchase, b: Purchase) => Purchase(a.key, a.value + b.value, b.time),
      new Totals[Purchase, Window]
    )),
    "aggregate" -> (_.aggregate(new Sum, new Totals[Long, Window]))
  )

  private def windows(in: Dataset[Purchase], json: JValue): WindowedDataset[Purchase, Window] = {
    val plain = in
      .withWatermark("time", "0 seconds")
      .keyed("key")
      .window(assigner(json \ "assigner"), "time")
      .sideOutputLateData(late)
      .allowedLateness(Duration.ofMillis((json \ "lateness").toOption.fold(0L) {
        _.values.toString.toLong
      }))
    val triggered = (json \ "trigger").toOption.fold(plain)(t => plain.trigger(trigger(t)))
    (json \ "evictor").toOption.fold(triggered)(e => triggered.evictor(evictor(e)))
  }

  private def name(json: JValue) = (json \ "name").values.toString

  private def bought(json: List[JValue]): Purchase = Purchase(
    json(0).values.toString,
    json(1).values.toString.toLong,
    new Timestamp(json(2).values.toString.toLong)
  )

  /** Whether its windows or timers go on for ever: then something is always left. */
  private def isEndless(json: JValue) = (json \ "assigner")(0).values == "GlobalWindows" ||
    (json \ "trigger").toOption.exists(JsonMethods.compact(_).contains("CountTrigger"))

  /** Runs a case; returns how many entries are left when all time has passed, if that ends. */
  private def check(
      json: JValue,
      build: Build,
      backend: String,
      tags: Seq[OutputTag[_]] = Seq(late)
  ): Option[Long] = {
    val in = new TestedInput(TypeInformation.of(implicitly[Encoder[Purchase]]))
    def result(rules: JValue)() = build(windows(in.stream, rules)).asInstanceOf[Dataset[Any]]
    val subtask = new TestedOperator[Any](
      TestedInputs.One,
      Seq(in),
      result(json) _,
      parallelism = 1,
      maxParallelism = 4,
      tags,
      backend
    )
    val lateRows = Seq.newBuilder[Any]
    try {
      (json \ "steps").children.foreach { step =>
        val (kind, arguments) = split(step)
        def time = arguments.head.values.toString.toLong
        val rows = kind match {
          case "row" =>
            val watermark = arguments.lift(3).collect { case JInt(time) => time.toLong }
            subtask.run(
              Seq(Seq(bought(arguments))),
              watermark = watermark.getOrElse(subtask.currentWatermark)
            )
          case "watermark" => subtask.run(Nil, watermark = time)
          case "clock" => subtask.run(Nil, clock = time)
          case "restart" =>
            subtask.restart()
            Nil
          case "rules" =>
            val rules = arguments.head
            val same = JObject("assigner" -> json \ "assigner")
            subtask.restart(
              result(if (rules \ "assigner" == JNothing) rules.merge(same) else rules) _
            )
            Nil
          case other => fail(other)
        }
        val expected = arguments.last match {
          case emitted: JArray => emitted.children.map(_.children.map(_.values))
          case _ => Nil
        }
        val found = rows.collect {
          case (0, total: WindowTotal) => total.productIterator.toSeq
          case (0, Row(key, start: Timestamp, end: Timestamp, total)) =>
            Seq(key, total, start.getTime, end.getTime - 1)
        }
        assert(
          found.map(_.toString).sorted == expected.map(_.toString).sorted,
          JsonMethods.compact(step)
        )
        lateRows ++= rows.collect { case (1, row) => row }
      }
      val tooLate = (json \ "late").children.map(row => bought(row.children))
      assert(tags.isEmpty || lateRows.result() == tooLate)
      Option.unless(isEndless(json)) {
        subtask.run(Nil, watermark = 1000000000L, clock = 1000000000L)
        subtask.numEntries
      }
    } finally subtask.close()
  }

  private def rules(assigner: String, more: JField*) = JObject(
    (("assigner" -> JArray(List(JString(assigner), JInt(1000)))) +: more).toList
  )

  private def steps(json: String) = "steps" -> JsonMethods.parse(json)

  private val byClock = """["rules", {"assigner": ["TumblingProcessingTimeWindows", 1000]}]"""

  for ((kind, build) <- builds; backend <- Seq("hashmap", "rocksdb")) {
    test(s"open windows keep their clock, by $kind, on $backend") {
      val change = s"""[["row", "a", 1, 100, 50], $byClock, ["clock", 2500]]"""
      val error = intercept[KeystateException](
        check(rules("TumblingEventTimeWindows", steps(change)), build, backend)
      )
      assert(error.errorCode == ErrorCode.OpenWindows)
      assert(
        error.getMessage.contains("the window from 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z")
      )
      assert(error.getMessage.contains("by event time, not merged"))
    }

    test(s"without open windows the clock may change, by $kind, on $backend") {
      val change =
        s"""[["row", "a", 1, 100, 50], ["watermark", 1000, [["a", 1, 0, 999]]], $byClock,
           | ["clock", 2500], ["row", "a", 2, 100], ["clock", 3500, [["a", 2, 2000, 2999]]]]""".stripMargin
      val left = check(rules("TumblingEventTimeWindows", steps(change)), build, backend)
      assert(left.contains(0L))
    }
  }

  // What a reduce keeps is like what an aggregate keeps, so one of them will do there.
  for ((backend, tried) <- Seq("hashmap" -> builds, "rocksdb" -> (builds - "reduce")))
    for (json <- (table \ "cases").children)
      test(s"${name(json)}, on $backend") {
        tried.foreach { case (kind, build) =>
          val left = check(json, build, backend)
          assert(left.forall(_ == 0), s"by $kind state is left behind")
        }
      }

  /** Whether aggregates of columns go with the windows of a case. */
  private def isForColumns(json: JValue) = {
    val rules =
      (json \ "steps").children.map(split).collect { case ("rules", List(rules)) => rules }
    (json \ "assigner")(0).values != "GlobalWindows" && (json +: rules).forall { each =>
      each \ "evictor" == JNothing &&
      (each \ "trigger").toOption.forall(_ == JArray(List(JString("EventTimeTrigger"))))
    }
  }

  test("there are cases for aggregates of columns") {
    def names(table: String) =
      (WindowTable.read(table) \ "cases").children.filter(isForColumns).map(name)
    assert(names("window_cases").size == 22)
    assert(names("window_rules") == Seq("sessions: event, 2000 ms, then event, 2000 ms"))
  }

  // Where late rows are not read, rows of tumbling and sliding windows are aggregated before.
  for {
    (backend, tags) <- Seq("hashmap" -> Nil, "rocksdb" -> Seq(late))
    table <- Seq("window_cases", "window_rules")
    json <- (WindowTable.read(table) \ "cases").children
    if isForColumns(json)
  } test(s"${name(json)}, by columns, on $backend") {
    val left = check(json, _.aggregate(expr("sum(value) AS total")), backend, tags)
    assert(left.forall(_ == 0), "state is left behind")
  }

  for ((backend, kind) <- Seq("hashmap" -> "aggregate", "rocksdb" -> "process"))
    for (json <- (WindowTable.read("window_rules") \ "cases").children)
      test(s"${name(json)}, by $kind, on $backend") {
        assert(check(json, builds(kind), backend).forall(_ == 0), "state is left behind")
      }
}
