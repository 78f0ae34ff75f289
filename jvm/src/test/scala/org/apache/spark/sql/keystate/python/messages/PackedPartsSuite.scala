package org.apache.spark.sql.keystate.python.messages

import java.util.Arrays

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import keystate.TimeDomain
import org.apache.spark.sql.keystate.encoding.StoredOrder
import org.apache.spark.sql.keystate.spec.{
  OperatorSpec, RowHandling, StateKind, StateSpec, TimeMode
}
import org.apache.spark.sql.keystate.state.Timer

class PackedPartsSuite extends AnyFunSuite {
  private val text = StructType.fromDDL("s string")

  private def row(length: Int): UnsafeRow =
    UnsafeProjection.create(text)(InternalRow(UTF8String.fromString("x" * length)))

  test("bytes grow by whatever is added, also at the edge") {
    (1000 to 1040).foreach { filled =>
      Seq[PackedBytes => Unit](_.addInt(-2), _.addLong(-2), _.addRow(row(50)), _.add(row50))
        .foreach { add =>
          val bytes = new PackedBytes
          val before = Array.fill[Byte](filled)(7)
          bytes.add(before, 0, filled)
          add(bytes)
          val alone = new PackedBytes
          add(alone)
          assert(bytes.size == filled + alone.size)
          assert(Arrays.equals(Arrays.copyOf(bytes.array, filled), before))
          assert(
            Arrays.equals(
              Arrays.copyOfRange(bytes.array, filled, bytes.size),
              Arrays.copyOf(alone.array, alone.size)
            )
          )
        }
    }
  }

  private def row50: PackedBytes = {
    val bytes = new PackedBytes
    bytes.addRow(row(50))
    bytes
  }

  test("a message has its rows, keys and control where its head says") {
    val parts = new PackedParts(Nil)
    (0 until 2).foreach { _ => // the second time after a reset
      parts.addKey(row(3), carried = -1)
      parts.addRow(0, keyIndex = 5, row(10))
      parts.addRow(0, keyIndex = 6, row(1000))
      assert(parts.rowCount == 2)
      parts.addTimer(
        6,
        Timer(TimeDomain.PROCESSING_TIME, 77L, 0, Array.emptyByteArray),
        gone = false
      )
      val control = Array[Byte](1, 2, 3)
      val message = parts.finish(cacheEpoch = 9, time = 1L << 40, control)
      def int(i: Int) = PackedBytes.intAt(message.array, i)
      assert(int(0) == PackedBytes.Rows && int(4) == 9)
      assert(PackedBytes.longAt(message.array, 8) == 1L << 40)
      assert(Seq(16, 20, 24).map(int) == Seq(2, 1, 4))
      val lengths = Seq(28, 32, 36, 40).map(int)
      assert(
        lengths == Seq(
          8 + row(10).getSizeInBytes + row(1000).getSizeInBytes,
          4 + row(3).getSizeInBytes,
          16,
          3
        )
      )
      assert(Seq(44, 48, 52).map(int) == Seq(5, 6, -1))
      assert(message.size == 56 + lengths.sum)
      assert(int(56) == row(10).getSizeInBytes)
      parts.reset()
    }
  }

  test("operators of flat rows and values are packed, others are not") {
    val flat = StructType.fromDDL(
      "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h timestamp, " +
        "i string, j binary"
    )
    val value = StateSpec("v", StateKind.Value, "value", LongType, None, StoredOrder.Natural)
    val spec = OperatorSpec(None, None, TimeMode.NoTime, timers = false, states = Seq(value))
    def fit(spec: OperatorSpec, rows: StructType = flat, output: StructType = flat) =
      PackedParts.fit(spec, rows, text, output)
    assert(fit(spec))
    assert(fit(spec.copy(timers = true)))
    assert(!fit(spec.copy(sideOutputs = true)))
    assert(!fit(spec.copy(rowHandling = RowHandling(columns = true))))
    assert(!fit(spec.copy(broadcast = Seq(value))))
    val list = StateSpec("l", StateKind.List, "list", LongType, None, StoredOrder.Natural)
    assert(!fit(spec.copy(states = Seq(value, list))))
    val decimal = value.copy(valueType = DecimalType(10, 2))
    assert(!fit(spec.copy(states = Seq(decimal))))
    Seq("a date", "a array<int>", "a struct<b: int>", "a decimal(3, 1)", "a timestamp_ntz")
      .foreach { ddl =>
        assert(!fit(spec, rows = StructType.fromDDL(ddl)), ddl)
        assert(!fit(spec, output = StructType.fromDDL(ddl)), ddl)
      }
    assert(!fit(spec, rows = new StructType))
    val wide = StructType((0 to 64).map(i => StructField(s"f$i", LongType)))
    assert(!fit(spec, rows = wide))
    assert(fit(spec, rows = StructType(wide.take(64))))
  }
}
