package org.apache.spark.sql.keystate.python.messages

import scala.util.Using

import org.apache.arrow.vector.complex.ListVector
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{BinaryType, DataType, LongType}
import org.apache.spark.sql.util.ArrowUtils

import keystate.backend.heap.HeapStateBackend
import keystate.backend.{Layout, StateFamily}
import keystate.errors.KeystateException
import org.apache.spark.sql.keystate.encoding.{StateRows, StoredOrder}
import org.apache.spark.sql.keystate.spec.{StateKind, StateSpec}
import org.apache.spark.sql.keystate.state.FamilyEntries

class ValueStateColumnsSuite extends AnyFunSuite {
  private val spec =
    StateSpec("images", StateKind.Value, "value", BinaryType, None, StoredOrder.Natural)

  /** Loads the state of so many keys, which share one value; returns what `load` returns. */
  private def load(keys: Int, value: Array[Byte]): Long = {
    val backend = new HeapStateBackend(1)
    backend.register(StateFamily(0, spec.name, Layout.Point))
    val toRow = UnsafeProjection.create(Array[DataType](LongType))
    val stored = StateRows.encode(UnsafeProjection.create(spec.rowSchema)(InternalRow(value)))
    val keyIndexes = new KeyIndexes
    (0 until keys).foreach { key =>
      val row: UnsafeRow = toRow(InternalRow(key.toLong))
      backend.put(0, 0, keyIndexes.key(keyIndexes.add(row, row.hashCode, 0)), stored)
    }
    val field =
      ArrowUtils.toArrowField("s0", StateColumns.sentFields(spec, 0).head.dataType, true, "UTC")
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("values", 0, Long.MaxValue)
    Using.resources(allocator, field.createVector(allocator)) { (_, vector) =>
      val columns = new ValueStateColumns(spec, 0, FamilyEntries(spec, 0, backend))
      columns
        .sender(_ => vector.asInstanceOf[ListVector])
        .load(keyIndexes, 0, Array.fill(keys)(-1))
    }
  }

  test("a load says how large its values are") {
    val one = load(1, new Array(1000))
    assert(one >= 1000 && one < 1100)
    assert(load(17, new Array(1000)) == 17 * one)
  }

  test("values that no message can hold are refused by the name of their state") {
    val error = intercept[KeystateException](load(16, new Array(64 << 20)))
    assert(error.code == "KEYSTATE_VALUES_TOO_LARGE")
    assert(error.getMessage.contains("16 keys in state 'images'"))
  }
}
