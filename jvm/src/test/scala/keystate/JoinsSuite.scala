package keystate

import java.sql.Timestamp
import java.time.Duration

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Row}

import keystate.errors.KeystateException

final case class Trade(key: String, value: Long, time: Timestamp)
final case class OfTwo(key: String, value: Option[Long], time: Timestamp, value_2: Option[Long])
final case class Quote(key: String, price: Long, time: Timestamp)

/** Joins in time in Scala. */
class JoinsSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private def at(millis: Long) = new Timestamp(millis)

  private val trades = Seq(
    Trade("a", 1, at(100)),
    Trade("a", 2, at(900)),
    Trade("b", 3, at(500)),
    Trade("c", 4, at(500))
  )
  private val quotes = Seq(
    Quote("a", 10, at(100)),
    Quote("a", 11, at(1000)),
    Quote("b", 12, at(490)),
    Quote("b", 13, at(530))
  )

  private def told(joined: DataFrame): Seq[Row] =
    joined.select("key", "value", "price").collect().toSeq.sortBy(_.getLong(1))

  private def rows(prices: Any*): Seq[Row] =
    trades.zip(prices).map { case (trade, price) => Row(trade.key, trade.value, price) }

  test("in each direction, within a tolerance, by columns and by a function of the key") {
    val left = trades.toDS()
    val right = quotes.toDS()
    def joined(direction: String, tolerance: Option[Duration] = None, exact: Boolean = true) = told(
      left
        .keyed("key")
        .joinAsOf(
          right.keyed("key"),
          "time",
          "time",
          direction,
          tolerance,
          allowExactMatches = exact
        )
    )
    assert(joined("backward") == rows(10L, 10L, 12L, null))
    assert(joined("backward", exact = false) == rows(null, 10L, 12L, null))
    assert(joined("forward") == rows(10L, 11L, 13L, null))
    assert(joined("nearest", Some(Duration.ofMillis(20))) == rows(10L, null, 12L, null))
    val inner = left
      .keyBy(_.key)
      .joinAsOf(right.keyBy(_.key), "time", "time", inner = true)
    assert(inner.columns.toSeq == Seq("key", "value", "time", "key_right", "price"))
    assert(told(inner) == rows(10L, 10L, 12L, null).take(3))
  }

  test("what does not fit is refused") {
    val (left, right) = (trades.toDS().keyed("key"), quotes.toDS().keyed("key"))
    def refusal(join: => DataFrame) = intercept[KeystateException](join).getMessage
    assert(refusal(left.joinAsOf(right, "time", "when")).contains("no column 'when'"))
    assert(refusal(left.joinAsOf(right, "value", "time")).contains("of type BIGINT"))
    assert(refusal(left.joinAsOf(right, "time", "time", "sideways")).contains("direction"))
  }

  test("many, with and without rows of all of them") {
    val three = Seq(trades.toDS().keyed("key"), quotes.toDS().keyed("key"))
    val more = quotes.map(quote => quote.copy(price = -quote.price)).toDS().keyBy(_.key)
    def joined(outer: Boolean) = three.head.joinAll(
      Seq(three(1), more),
      Duration.ofMillis(50),
      on = Seq("time", "time", "time"),
      outer = outer,
      earliest = Some("begun")
    )
    val inner = joined(outer = false)
    assert(
      inner.columns.toSeq ==
        Seq("key", "begun", "value", "time", "price", "time_2", "key_3", "price_3", "time_3")
    )
    def told(rows: DataFrame) =
      rows.select("key", "value", "price", "price_3").collect().toSeq.map(_.toString).sorted
    assert(told(inner) == Seq("[a,1,10,-10]") ++ Seq(12, 13).flatMap { one =>
      Seq(12, 13).map(two => s"[b,3,$one,-$two]")
    })
    assert(
      told(joined(outer = true))
        .diff(told(inner)) == Seq("[a,2,null,null]", "[a,null,11,-11]", "[c,4,null,null]")
    )
    val refusal = intercept[KeystateException](three.head.joinAll(three.tail, Duration.ofMillis(1)))
    assert(refusal.getMessage.contains("no watermark"))
  }

  test("within an interval, with and without a match") {
    val (left, right) = (trades.toDS().keyed("key"), quotes.toDS().keyed("key"))
    def joined(from: Long, to: Long, exclusive: Boolean, outer: Boolean) = left
      .intervalJoin(right)
      .between(
        Duration.ofMillis(from),
        Duration.ofMillis(to),
        lowerExclusive = exclusive,
        on = Seq("time", "time"),
        outer = outer
      )
    assert(
      joined(0, 100, exclusive = false, outer = false).columns.toSeq ==
        Seq("key", "value", "time", "price", "time_right")
    )
    assert(
      told(joined(0, 100, exclusive = false, outer = false)) ==
        Seq(Row("a", 1L, 10L), Row("a", 2L, 11L), Row("b", 3L, 13L))
    )
    assert(told(joined(-10, 100, exclusive = true, outer = true)) == rows(10L, 11L, 13L, null))
    val refusal = intercept[KeystateException](joined(5, 1, exclusive = false, outer = false))
    assert(refusal.getMessage.contains("Nothing is between"))
  }

  test("late elements of many go to a side output, with the result's columns") {
    def tables = Seq(trades, trades).map(_.toDS().keyed("key"))
    def joined(tag: OutputTag[_]) = tables.head.joinAll(
      tables.tail,
      Duration.ofMillis(1),
      on = Seq("time", "time"),
      late = Some(tag)
    )
    val refusal = intercept[KeystateException](joined(OutputTag[OfTwo]("late"))).getMessage
    assert(refusal.contains("but late rows are struct<key:string,value:bigint,time:timestamp"))
  }
}
