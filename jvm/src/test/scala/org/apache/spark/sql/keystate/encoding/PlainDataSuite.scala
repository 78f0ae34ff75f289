package org.apache.spark.sql.keystate.encoding

import java.math.{BigDecimal => JBigDecimal, BigInteger}
import java.time._
import java.util.TimeZone

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._

import org.apache.spark.sql.keystate.encoding.PlainData._

/** That Python reads and writes the same is tested in tests/interop. */
class PlainDataSuite extends AnyFunSuite {
  private val values = Seq[Any](
    null,
    true,
    false,
    BigInteger.ZERO,
    BigInteger.valueOf(-1),
    BigInteger.valueOf(Long.MinValue),
    BigInteger.ONE.shiftLeft(1000),
    -0.5,
    "a\u20ac" * 50,
    new JBigDecimal("-12.50"),
    LocalDate.of(1, 1, 1),
    LocalTime.of(23, 59, 59, 999999000),
    Moment(LocalDateTime.of(2026, 3, 1, 0, 0), None),
    Moment(LocalDateTime.of(1, 1, 1, 0, 0, 0, 1000), Some(ZoneOffset.UTC)),
    Moment(LocalDateTime.of(2024, 10, 27, 2, 30), None, isSecond = true),
    Duration.ofDays(-3).plusNanos(7000),
    Items(Seq("a", null)),
    Items(Nil, isTuple = true),
    Pairs(Seq("a" -> BigInteger.ONE, "b" -> Items(Seq(true)))),
    Named(Seq("x", "y"), Seq(BigInteger.TEN, Named(Nil, Nil)))
  )

  test("values come back as they are") {
    values.foreach(value => assert(decode(encode(value)) == value))
    val bytes = Array.tabulate(300)(_.toByte)
    assert(decode(encode(bytes)).asInstanceOf[Array[Byte]].sameElements(bytes))
  }

  test("what only Python writes") {
    def read(text: String): Any = decode(1.toByte +: text.getBytes("ISO-8859-1"))
    def refused(text: String): String = intercept[Unreadable](read(text)).getMessage
    assert(read("e\u0000\u0000\u0000\u0001T") == Items(Seq(true)))
    assert(read("3\u000801:02:03\u0001N") == LocalTime.of(1, 2, 3))
    val zone =
      "5\u0000\u0000\u0000\u00024" + "\u0000" * 6 + "\u000e\u0010" + "\u0000" * 4 + "s\u0001a"
    val at = LocalDateTime.of(2026, 3, 1, 1, 2)
    val moment = "2\u00132026-03-01T01:02:00\u0000"
    assert(read(moment + zone) == Moment(at, Some(ZoneOffset.ofHours(1))))
    assert(refused(moment + "T") == "there is 'T', which does not belong there")
    assert(refused("3\u000801:02:03\u0000" + zone).contains("no type for a time with a zone"))
    assert(refused("g\u0003<i8\u0000\u0000\u0000\u0000").contains("what NumPy has made"))
    assert(refused("c") == "there is no type 'c'")
    intercept[Pickled](decode(Array(0x80, 4, 'N', '.').map(_.toByte)))
  }

  test("damaged bytes are told as such, and never anything else") {
    val seed = Random.nextInt()
    val random = new Random(seed)
    val whole = encode(Items(values))
    def refused(bytes: Array[Byte]): Boolean =
      try {
        decode(bytes)
        false
      } catch {
        case _: Unreadable | _: Pickled => true
        case e: Throwable => fail(s"seed $seed: ${bytes.toSeq}", e)
      }
    whole.indices.foreach(n => assert(refused(whole.take(n)), s"$n bytes"))
    assert(refused(whole :+ 'N'.toByte))
    val flipped = Seq.fill(20000) {
      val bytes = whole.clone()
      bytes(random.nextInt(bytes.length)) = random.nextInt(256).toByte
      refused(bytes)
    }
    assert(flipped.contains(true))
    assert(refused(1.toByte +: Array.fill(200)("l\u0000\u0000\u0000\u0001".getBytes).flatten))
    assert(refused(Array(1, 'l', 0x7f, 0x7f, 0x7f, 0x7f).map(_.toByte)))
  }

  test("values fit types without loss, or not at all") {
    def fits(value: Any, ddl: String): Any =
      PlainDataTypes.fromPlain(value, DataType.fromDDL(ddl))
    def refused(value: Any, ddl: String): String =
      intercept[PlainDataTypes.Misfit](fits(value, ddl)).getMessage
    assert(fits(BigInteger.valueOf(127), "tinyint") == 127.toByte)
    assert(refused(BigInteger.valueOf(128), "tinyint") == "the int 128 is no TINYINT")
    assert(refused(BigInteger.ONE.shiftLeft(99999), "bigint").startsWith("an int of 100000 bits"))
    assert(fits(BigInteger.ONE, "double") == 1.0)
    assert(refused(0.1, "float") == "the float 0.1 is no FLOAT")
    assert(fits(new JBigDecimal("1E+3"), "decimal(6,2)") == Decimal("1000.00"))
    assert(refused(new JBigDecimal("1E+999999999"), "decimal(38,0)").contains("is no DECIMAL"))
    assert(refused(new JBigDecimal("1E-999999999"), "decimal(38,38)").contains("is no DECIMAL"))
    assert(refused(new JBigDecimal("0.001"), "decimal(6,2)").contains("is no DECIMAL"))
    val struct = "struct<a: int, b: string>"
    val row = InternalRow(1, null)
    assert(fits(Named(Seq("b", "a"), Seq(null, BigInteger.ONE)), struct) == row)
    assert(fits(Items(Seq(BigInteger.ONE, null)), struct) == row)
    assert(fits(Pairs(Seq("a" -> BigInteger.ONE)), struct) == row)
    assert(refused(Named(Seq("c"), Seq(null)), struct).contains("has no field 'c'"))
    assert(refused(Items(Seq(null)), struct).contains("a list or tuple is no STRUCT"))
    assert(refused("text", "binary") == "the string text is no BINARY")
  }
  // Python: int(datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")).timestamp())
  private val changesOfClocks = Seq(
    ("2024-10-27T02:30", false, 1729989000L),
    ("2024-10-27T02:30", true, 1729992600L),
    ("2024-10-27T03:30", true, 1729996200L),
    ("2024-03-31T02:30", false, 1711848600L),
    ("2024-03-31T02:30", true, 1711845000L)
  )

  test("times that come twice, or never, are the instants that they are in Python") {
    val berlin = ZoneId.of("Europe/Berlin")
    val before = TimeZone.getDefault
    TimeZone.setDefault(TimeZone.getTimeZone(berlin))
    try
      for {
        (text, isSecond, seconds) <- changesOfClocks
        zone <- Seq(None, Some(berlin))
      } {
        // With a ZoneInfo, which Scala does not write, and without one.
        val bytes = encode(Moment(LocalDateTime.parse(text), None, isSecond))
        val named = bytes.dropRight(1) ++ "6\rEurope/Berlin".getBytes
        val read = decode(if (zone.isEmpty) bytes else named)
        assert(read == Moment(LocalDateTime.parse(text), zone, isSecond))
        assert(PlainDataTypes.fromPlain(read, TimestampType) == seconds * 1000000, read)
      }
    finally TimeZone.setDefault(before)
  }
}
