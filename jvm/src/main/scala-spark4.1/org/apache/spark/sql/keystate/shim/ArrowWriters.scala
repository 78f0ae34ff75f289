package org.apache.spark.sql.keystate.shim

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.ValueVector
import org.apache.arrow.vector.types.pojo.Schema

import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils

/** Arrow columns of Spark's types, and Spark 4.1's writers of them. The writers' class is private
  * to Spark's own package, but its members are not. So this code does not name the class, and the
  * compiler infers it.
  */
private[keystate] object ArrowWriters {
  final class Making[W](val of: ValueVector => W) {
    type Writer = W
  }

  private[keystate] val making = new Making(ArrowWriter.createFieldWriter(_))

  type FieldWriter = making.Writer

  def schema(columns: StructType, timeZone: String, largeVarTypes: Boolean): Schema = new Schema(
    columns.map { column =>
      ArrowUtils.toArrowField(
        column.name,
        column.dataType,
        column.nullable,
        timeZone,
        largeVarTypes
      )
    }.asJava
  )

  def of(vector: ValueVector): FieldWriter = making.of(vector)
}
