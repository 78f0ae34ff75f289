package org.apache.spark.sql.keystate.table

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DataType, StructType}

/** The columns that a query asks for, and of structs in them only these fields. */
private[table] object Pruned {

  /** Projects rows with all columns to the wanted ones. */
  def projection(all: StructType, wanted: StructType): UnsafeProjection = {
    val columns = wanted.map { field =>
      val i = all.fieldIndex(field.name)
      part(BoundReference(i, all(i).dataType, nullable = true), field.dataType)
    }
    UnsafeProjection.create(columns)
  }

  private def part(value: Expression, wanted: DataType): Expression =
    (value.dataType, wanted) match {
      case (all: StructType, fields: StructType) if all != fields =>
        val made = CreateNamedStruct(fields.flatMap { field =>
          val of = GetStructField(value, all.fieldIndex(field.name), Some(field.name))
          Seq(Literal(field.name), part(of, field.dataType))
        })
        If(IsNull(value), Literal(null, made.dataType), made)
      case _ => value
    }

  /** A schema that asks for no parts of the elements of arrays and maps: `part` takes these whole. */
  def readable(all: StructType, wanted: StructType): StructType =
    StructType(wanted.map { field =>
      field.copy(dataType = readable(all(field.name).dataType, field.dataType))
    })

  private def readable(all: DataType, wanted: DataType): DataType = (all, wanted) match {
    case (struct: StructType, fields: StructType) => readable(struct, fields)
    case _ => all
  }
}
