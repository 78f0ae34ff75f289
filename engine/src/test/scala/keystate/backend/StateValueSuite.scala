package keystate.backend

import org.scalatest.funsuite.AnyFunSuite

class StateValueSuite extends AnyFunSuite {
  private val row = Array[Byte](9, 8, 7)

  private def rowOf(value: Array[Byte]) = value.drop(StateValue.rowOffset(value)).toSeq

  test("a plain value is one byte longer than its row") {
    val value = StateValue.encode(row)
    assert(value.toSeq == Seq[Byte](0, 9, 8, 7))
    assert(StateValue.schemaId(value) == StateValue.NoSchemaId)
    assert(StateValue.timestamp(value) == StateValue.NoTimestamp)
    assert(rowOf(value) == row.toSeq)
  }

  test("schema id and timestamp, alone and together") {
    for {
      id <- Seq(StateValue.NoSchemaId, 0, 1, 0xffff)
      timestamp <- Seq(StateValue.NoTimestamp, -1L, 0L, Long.MaxValue)
    } {
      val value = StateValue.encode(row, 1, 2, id, timestamp)
      assert(StateValue.schemaId(value) == id)
      assert(StateValue.timestamp(value) == timestamp)
      assert(rowOf(value) == row.toSeq.tail)
    }
  }

  test("another schema id leaves the rest as it is") {
    for (timestamp <- Seq(StateValue.NoTimestamp, 5L); id <- Seq(StateValue.NoSchemaId, 1)) {
      val value = StateValue.withSchemaId(StateValue.encode(row, 0, 3, id, timestamp), 300)
      assert(value.toSeq == StateValue.encode(row, 0, 3, 300, timestamp).toSeq)
    }
  }

  test("the bytes, for they are on disk") {
    assert(
      StateValue.encode(row, 0, 1, 258, 3).toSeq == Seq[Byte](3, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 9)
    )
  }

  test("flags of a later release are refused") {
    intercept[IllegalStateException](StateValue.rowOffset(Array[Byte](64, 1)))
  }
}
