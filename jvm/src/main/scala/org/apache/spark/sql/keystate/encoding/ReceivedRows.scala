package org.apache.spark.sql.keystate.encoding

import org.apache.arrow.vector.complex.{ListVector, StructVector}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

/** A worker's values of one state, as rows: a struct's fields, or the value as the one field of a
  * row. Returns the same object at every index.
  */
private[keystate] final class ReceivedRows(vector: ArrowColumnVector, isStruct: Boolean) {
  private val fields: Array[ColumnVector] = vector.getValueVector match {
    case struct: StructVector if isStruct => Array.tabulate(struct.size)(vector.getChild)
    case _ => Array(vector)
  }
  private val batch = new ColumnarBatch(fields)
  batch.setNumRows(vector.getValueVector.getValueCount)

  def size: Int = batch.numRows
  def isNull(i: Int): Boolean = vector.isNullAt(i)
  def apply(i: Int): InternalRow = batch.getRow(i)
}

/** The element vector of a list column. */
private[keystate] object Elements {
  def apply(column: ArrowColumnVector): ArrowColumnVector = new ArrowColumnVector(
    column.getValueVector.asInstanceOf[ListVector].getDataVector
  )
}
