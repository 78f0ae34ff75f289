package org.apache.spark.sql.keystate.store

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._

/** The key encodings of joins that Spark has from 4.2 on. */
class TimestampKeysSuite extends AnyFunSuite with ColumnFamilyFixture {
  private val times = Seq(Long.MinValue, -100L, -1L, 0L, 1L, 255L, 256L, 1L << 40, Long.MaxValue)

  test("timestamp encodings: by time over all keys, and by time within a key") {
    val schema =
      TimestampKeyStateEncoder.keySchemaWithTimestamp(new StructType().add("name", StringType))
    def at(name: String, time: Long) = row(schema, name, time)

    withStore(TimestampAsPrefixKeyStateEncoderSpec(schema)) { store =>
      Random.shuffle(times).foreach(time => store.put(at(s"$time", time), value(1), "cf"))
      assert(longs(store.iterator("cf"), 1) == times)
      assert(
        longs(store.rangeScan(Some(at("", -1L)), Some(at("", 2L)), "cf"), 1) == Seq(-1L, 0L, 1L)
      )
    }
    withStore(TimestampAsPostfixKeyStateEncoderSpec(schema)) { store =>
      for (name <- Seq("a", "b"); time <- Random.shuffle(times))
        store.put(at(name, time), value(1), "cf")
      val prefix = row(StructType(schema.take(1)), "a")
      assert(longs(store.prefixScan(prefix, "cf"), 1) == times)
      assert(
        longs(store.rangeScan(Some(at("b", 0)), Some(at("b", 256)), "cf"), 1) == Seq(0L, 1L, 255L)
      )
    }
  }
}
