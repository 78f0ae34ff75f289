package org.apache.spark.sql.keystate.jvm.state

import java.time.{Instant, LocalDateTime, ZoneOffset}
import java.util.{List => JList}

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{Encoder, Encoders}

import keystate.errors.{ErrorCode, KeystateException}
import org.apache.spark.sql.keystate.encoding.ObjectCodec

class ListElementsSuite extends AnyFunSuite {
  private def of(encoder: Encoder[_]): ListElements =
    new ListElements(ObjectCodec.bound(ObjectCodec.expression(encoder)))

  private val instants = of(Encoders.INSTANT)
  private val locals = of(Encoders.LOCALDATETIME)

  private def instant(local: LocalDateTime): Instant = local.toInstant(ZoneOffset.UTC)

  test("times of the years that Python has come back as they are") {
    Seq("0001-01-01T00:00", "1969-12-31T23:59:59.999999", "9999-12-31T23:59:59.999999")
      .map(LocalDateTime.parse)
      .foreach { local =>
        assert(locals.decode(locals.encode(JList.of(local))) == JList.of(local))
        val at = instant(local)
        assert(instants.decode(instants.encode(JList.of(at))) == JList.of(at))
      }
  }

  test("a time of another year is refused, and not one of a year that has as many bits") {
    Seq(
      "0000-12-31T23:59:59.999999",
      "-0044-03-15T12:00",
      "+10000-01-01T00:00",
      "+67560-01-01T00:00"
    )
      .map(LocalDateTime.parse)
      .foreach { local =>
        def refused(encode: => Any): Assertion = {
          val e = intercept[KeystateException](encode)
          assert(e.errorCode == ErrorCode.StateType)
          assert(e.getMessage.contains(s"$local is of no year from 1 to 9999"))
        }
        refused(locals.encode(JList.of(local)))
        refused(instants.encode(JList.of(instant(local))))
      }
  }
}
