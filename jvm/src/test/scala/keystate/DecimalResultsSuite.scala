package keystate

import java.math.{BigDecimal => JBigDecimal}
import java.sql.Timestamp

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{Dataset, Row}

import keystate.windows.{ProcessWindowFunction, TimeWindow, TumblingEventTimeWindows}

/** A result is refused if it has a number that its type can't hold as it is, in both modes of Spark's
  * SQL.
  */
class DecimalResultsSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val big = DecimalStates.TooBig
  private val exact = DecimalStates.TooExact
  private val small: TypeInformation[JBigDecimal] = TypeInformation.ddl("decimal(5,2)")

  private def inBothModes(check: => Any): Unit =
    for (ansi <- Seq("false", "true")) withSetting("spark.sql.ansi.enabled", ansi) {
      val _ = check
    }

  private def keys = Seq("a").toDS().keyBy(identity)

  private def isRefused(number: Any)(run: => Dataset[_]): Assertion = {
    val error = intercept[Exception](run.collect())
    val texts =
      Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).map(_.getMessage)
    val told = texts.mkString("\n")
    assert(told.contains("[KEYSTATE_RESULT_TYPE]"), number)
    assert(told.contains("does not fit decimal("), number)
  }

  /** Checks results of one type, in the main output and in a side output. */
  private def check[T](kept: T*)(refused: T*)(implicit info: TypeInformation[T]): Unit =
    inBothModes {
      val tag = OutputTag[T]("side")
      def run(values: Seq[T]) = keys.process(new EmitsDecimals(values, tag))
      val all = run(kept)
      assert(all.collect().toSeq.map(plain) == kept.map(plain))
      assert(all.getSideOutput(tag).collect().toSeq.map(plain) == kept.map(plain))
      for (each <- refused) {
        isRefused(each)(run(Seq(each)))
        isRefused(each)(keys.process(new EmitsAside(each, tag)).getSideOutput(tag))
      }
    }

  /** Numbers that compare by what they are, not by their scale. */
  private def plain(value: Any): Any = value match {
    case number: JBigDecimal => BigDecimal(number)
    case row: Row => row.toSeq.toList.map(plain)
    case many: scala.collection.Seq[_] => many.toList.map(plain)
    case other => other
  }

  test("numbers of a declared precision") {
    def of(text: String) = new JBigDecimal(text)
    check(of("1.2300"), of("999.99"), of("-1"), of("1E+2"))(of(big), of("-" + big), of(exact))(
      small
    )
  }

  test("numbers within other values") {
    val many = BigDecimal(exact + "E-20")
    check(Offer(1, Some(2), Some(3)), Offer(1, None, None))(
      Offer(many, None, None),
      Offer(1, Some(many), None),
      Offer(1, None, Some(BigInt(10).pow(40)))
    )
    check((1, (BigDecimal(1), "a")))((1, (many, "a")), (1, (BigDecimal(big + "E+20"), "a")))
    check(Row(new JBigDecimal("1.10"), Seq(new JBigDecimal(1))))(
      Row(new JBigDecimal(exact), Nil),
      Row(null, Seq(new JBigDecimal(big)))
    )(TypeInformation.ddl("d decimal(5,2), more array<decimal(5,2)>"))
  }

  test("windows and sources") {
    inBothModes {
      val read = Seq(("a", new Timestamp(0))).toDS().keyBy(_._1)
      val tumbling = TumblingEventTimeWindows.of(Time.seconds(1))
      val number = new JBigDecimal(exact)
      isRefused(number) {
        read.window(tumbling, eventTime = "_2").process(new EmitsOfWindow(number))(small)
      }
    }
    val query = spark
      .addSource(new EmitsOfSource(new JBigDecimal(exact)))(small)
      .writeStream
      .option("checkpointLocation", folder.resolve("source").toString)
      .format("noop")
      .start()
    val error =
      try intercept[Exception](query.processAllAvailable()).getMessage
      finally query.stop()
    assert(error.contains("[KEYSTATE_RESULT_TYPE]"), error)
  }

  test("an element whose result does not fit is a dead letter") {
    val dead = OutputTag[DeadLetter[String]]("dead")
    def numbers(texts: String*) =
      texts.toDS().coalesce(1).keyBy(_ => 1).onError(DeadLetters(dead)).process(new Parses)(small)
    inBothModes {
      val parsed = numbers("1", exact, "2.5", big)
      assert(parsed.collect().toSeq.map(plain) == Seq(BigDecimal(1), BigDecimal("3.5")))
      val letters = parsed.getSideOutput(dead).collect().toSeq
      assert(letters.map(_.row) == Seq(exact, big))
      assert(letters.forall(_.message.contains("[KEYSTATE_RESULT_TYPE]")), letters)
    }
  }
}

class EmitsDecimals[T](values: Seq[T], tag: OutputTag[T])
    extends KeyedProcessFunction[String, String, T] {
  override def processElement(in: String, ctx: Context, out: Collector[T]): Unit =
    for (each <- values) {
      out.collect(each)
      ctx.output(tag, each)
    }
}

class EmitsAside[T](value: T, tag: OutputTag[T]) extends KeyedProcessFunction[String, String, Int] {
  override def processElement(in: String, ctx: Context, out: Collector[Int]): Unit =
    ctx.output(tag, value)
}

class EmitsOfWindow(number: JBigDecimal)
    extends ProcessWindowFunction[(String, Timestamp), JBigDecimal, String, TimeWindow] {
  override def process(
      key: String,
      context: Context,
      elements: Iterable[(String, Timestamp)],
      out: Collector[JBigDecimal]
  ): Unit = out.collect(number)
}

class EmitsOfSource(number: JBigDecimal) extends SourceFunction[JBigDecimal] {
  override def run(ctx: SourceFunction.SourceContext[JBigDecimal]): Unit = ctx.collect(number)
  override def cancel(): Unit = ()
}

/** Emits the sum of the numbers so far. */
class Parses extends KeyedProcessFunction[Int, String, JBigDecimal] {
  @transient private var sum: ValueState[BigDecimal] = _

  override def open(ctx: RuntimeContext): Unit =
    sum = ctx.getState(ValueStateDescriptor("sum", BigDecimal(0)))

  override def processElement(in: String, ctx: Context, out: Collector[JBigDecimal]): Unit = {
    sum.update(sum.value() + BigDecimal(in))
    out.collect(sum.value().bigDecimal)
  }
}
