package org.apache.spark.sql.keystate.encoding

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.types.StructType

import org.apache.spark.sql.keystate.shim.ArrowWriters

/** Writes stored values into Arrow.
  *
  * @param schema
  *   of the row in a stored value
  * @param isStruct
  *   whether that row is the value itself, see `StateSpec.isStruct`
  */
private[keystate] final class StoredValueWriter(
    schema: StructType,
    isStruct: Boolean,
    values: ArrowWriters.FieldWriter
) {
  private val holder = new GenericInternalRow(1)
  private val stored = new UnsafeRow(schema.length)

  def write(bytes: Array[Byte]): Unit =
    if (bytes == null || StateRows.isNull(bytes)) {
      holder.setNullAt(0)
      values.write(holder, 0)
    } else {
      StateRows.point(stored, bytes)
      if (isStruct) {
        holder.update(0, stored)
        values.write(holder, 0)
      } else
        values.write(stored, 0)
    }
}
