package org.apache.spark.sql.keystate.encoding

import scala.reflect.runtime.universe.TypeTag

import org.apache.spark.sql.Encoder
import org.apache.spark.sql.catalyst.{JavaTypeInference, ScalaReflection}
import org.apache.spark.sql.catalyst.encoders.RowEncoder
import org.apache.spark.sql.types.{DataType, StructType}

/** Spark's encoders, for each way in which a user can name a type. */
object Encodings {
  def ofTag[T: TypeTag]: Encoder[T] = ScalaReflection.encoderFor[T]

  def ofClass[T](cls: Class[T]): Encoder[T] = JavaTypeInference.encoderFor(cls)

  def ddl[T](ddl: String): Encoder[T] = (DataType.fromDDL(ddl) match {
    case struct: StructType => RowEncoder.encoderFor(struct)
    case other => RowEncoder.encoderForDataType(other, lenient = false)
  }).asInstanceOf[Encoder[T]]
}
