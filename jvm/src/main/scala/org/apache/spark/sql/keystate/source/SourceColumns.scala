package org.apache.spark.sql.keystate.source

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.ArrowUtils

import org.apache.spark.sql.keystate.shim.ArrowWriters

/** Finds a source's columns in rows that the source may have written with other columns: by their
  * names, with the very types. Whether a column may be null makes no difference.
  */
private[keystate] final class SourceColumns(declared: StructType) {
  import SourceColumns._

  // The columns as Arrow returns them, which does not have all of Spark's types.
  private val columns =
    plain(ArrowUtils.fromArrowSchema(ArrowWriters.schema(declared, "UTC", largeVarTypes = false)))

  /** Converts stored rows to rows with these columns. None if a column is missing, or has another
    * type.
    */
  def from(stored: StructType): Option[InternalRow => InternalRow] = {
    val there = plain(stored)
    if (there == columns) Some(identity)
    else {
      val places = columns.map(column => there.indices.filter(there(_) == column))
      val distinct = Seq(there, columns).forall(of => of.names.distinct.length == of.length)
      Option.when(distinct && places.forall(_.nonEmpty)) {
        val select = UnsafeProjection.create(places.map { place =>
          BoundReference(place.head, there(place.head).dataType, nullable = true)
        })
        select(_)
      }
    }
  }
}

private[keystate] object SourceColumns {

  /** Types without what makes no difference to stored values. */
  def plain(columns: StructType): StructType =
    StructType(columns.map(column => StructField(column.name, plainType(column.dataType))))

  private def plainType(dataType: DataType): DataType = dataType match {
    case struct: StructType => plain(struct)
    case ArrayType(element, _) => ArrayType(plainType(element))
    case MapType(key, value, _) => MapType(plainType(key), plainType(value))
    case _: StringType => StringType
    case _: TimeType => TimeType()
    case other => other
  }
}
