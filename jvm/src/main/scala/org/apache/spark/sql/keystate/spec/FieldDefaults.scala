package org.apache.spark.sql.keystate.spec

import java.util.Base64

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoder
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders._
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types._

import org.apache.spark.sql.keystate.encoding.{ArrowStreams, ObjectCodec}

/** Adds to the type of a JVM function's state which fields may be null, and their defaults. A
  * default says how a new field is read from old state, see [[SchemaEvolution]]. A field's default
  * is its value in a whole default value, if there is one, else that of the case class's parameter.
  * A struct in a whole value is the whole value of its own fields; an element of a collection in it
  * is no default for other elements.
  */
private[keystate] object FieldDefaults {

  /** The type with defaults.
    *
    * @param whole
    *   a value of the type with the defaults, such as the state's default; null if there is none
    */
  def in(dataType: DataType, encoder: AgnosticEncoder[_], whole: Any): DataType =
    (dataType, encoder) match {
      case (struct: StructType, of: StructEncoder[_]) =>
        val values = whole match {
          case row: Row => row.toSeq
          case product: Product => product.productIterator.toSeq
          case _ => parameters(of)
        }
        StructType(struct.zip(of.fields).zip(values).map { case ((field, part), value) =>
          val typed = field.copy(dataType = in(field.dataType, part.enc, value))
          encoded(field.dataType, part.enc, value) match {
            case Some(default) =>
              val metadata = new MetadataBuilder().putString(SchemaEvolution.Default, default)
              typed.copy(nullable = true, metadata = metadata.build())
            case None => typed.copy(nullable = part.nullable)
          }
        })
      case (_, option: OptionEncoder[_]) =>
        in(dataType, option.elementEncoder, Option(whole).collect { case Some(v) => v }.orNull)
      case (ArrayType(element, nullable), of: ArrayEncoder[_]) =>
        ArrayType(in(element, of.element, null), nullable)
      case (ArrayType(element, nullable), of: IterableEncoder[_, _]) =>
        ArrayType(in(element, of.element, null), nullable)
      case (MapType(key, value, nullable), of: MapEncoder[_, _, _]) =>
        MapType(key, in(value, of.valueEncoder, null), nullable)
      case _ => dataType
    }

  /** The defaults of a case class's parameters; null for a parameter without one. They can be found
    * only for a class that is not inside another class or a method.
    */
  private def parameters(encoder: StructEncoder[_]): Seq[Any] = {
    val cls = encoder.clsTag.runtimeClass
    val companion =
      try {
        val found = Class.forName(s"${cls.getName}$$", true, cls.getClassLoader)
        Some(found.getField("MODULE$").get(null))
      } catch { case _: ClassNotFoundException | _: NoSuchFieldException => None }
    encoder.fields.indices.map { i =>
      companion
        .flatMap(_.getClass.getMethods.find(_.getName == s"$$lessinit$$greater$$default$$${i + 1}"))
        .map(_.invoke(companion.get))
        .orNull
    }
  }

  /** A value as the text in a field's metadata. None for null. */
  private def encoded(dataType: DataType, encoder: AgnosticEncoder[_], value: Any): Option[String] =
    Option(value)
      .map(new ObjectCodec(ObjectCodec.expression(encoder).resolveAndBind()).field)
      .filter(_ != null)
      .map { stored =>
        val row = new GenericInternalRow(Array[Any](stored))
        val schema = new StructType().add("value", dataType)
        val stream = new ArrowStreams("UTC", largeVarTypes = false).write(schema) { writers =>
          writers.head.write(row, 0)
          1
        }
        Base64.getEncoder.encodeToString(stream)
      }
}
