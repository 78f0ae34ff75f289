package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import keystate.backend.StateValue

/** Stored values and the rows in them. */
private[keystate] object StateRows {

  /** The stored form of a map's null value if the value's type is a struct: only the header. */
  val NullStruct: Array[Byte] = Array(StateValue.NullFlag)

  def isNull(bytes: Array[Byte]): Boolean = (bytes(0) & StateValue.NullFlag) != 0

  /** Points `row` at the row in a stored value. Nothing is copied. */
  def point(row: UnsafeRow, bytes: Array[Byte]): Unit = {
    val offset = StateValue.rowOffset(bytes)
    row.pointTo(bytes, (Platform.BYTE_ARRAY_OFFSET + offset).toLong, bytes.length - offset)
  }

  /** A stored value that never expires: its header is one byte, 0. */
  def encode(row: UnsafeRow): Array[Byte] = {
    val bytes = new Array[Byte](1 + row.getSizeInBytes)
    Platform.copyMemory(
      row.getBaseObject,
      row.getBaseOffset,
      bytes,
      Platform.BYTE_ARRAY_OFFSET + 1L,
      row.getSizeInBytes.toLong
    )
    bytes
  }
}
