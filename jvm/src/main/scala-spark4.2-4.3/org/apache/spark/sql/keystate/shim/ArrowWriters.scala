package org.apache.spark.sql.keystate.shim

import org.apache.arrow.vector.ValueVector
import org.apache.arrow.vector.types.pojo.Schema

import org.apache.spark.sql.execution.arrow.{ArrowFieldWriter, ArrowWriter}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils

/** Arrow columns of Spark's types, and Spark's writers of them. */
private[keystate] object ArrowWriters {
  type FieldWriter = ArrowFieldWriter

  def schema(columns: StructType, timeZone: String, largeVarTypes: Boolean): Schema =
    ArrowUtils.toArrowSchema(columns, timeZone, largeVarTypes = largeVarTypes)

  def of(vector: ValueVector): FieldWriter = ArrowWriter.createFieldWriter(vector)
}
