package org.apache.spark.sql.keystate.encoding

import scala.reflect.ClassTag
import scala.reflect.runtime.universe.{TypeTag, runtimeMirror}

import org.apache.spark.sql.Encoder
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders._
import org.apache.spark.sql.catalyst.encoders.{AgnosticEncoder, RowEncoder}
import org.apache.spark.sql.catalyst.{JavaTypeInference, ScalaReflection}
import org.apache.spark.sql.types.{DataType, Metadata, StructType}

/** Spark's encoders, for each way in which a user can name a type. */
object Encodings {
  def ofTag[T: TypeTag]: Encoder[T] = ScalaReflection.encoderFor[T]

  def ofClass[T](cls: Class[T]): Encoder[T] = JavaTypeInference.encoderFor(cls)

  /** The encoder of the type argument that a class gives to a generic class or trait: of T, if the
    * class extends `Base[T]`. It uses Scala's own reflection, because Java sees a primitive T as
    * Object.
    */
  def ofArgument(cls: Class[_], base: Class[_]): Encoder[_] = {
    val mirror = runtimeMirror(cls.getClassLoader)
    val extended = mirror.classSymbol(cls).toType.baseType(mirror.classSymbol(base))
    ScalaReflection.encoderFor(extended.typeArgs.head)
  }

  /** The encoder of a case class whose fields have these types; all of them may be null. Relies on
    * Spark's encoder of a class, which takes the types of fields from the encoders passed to it.
    */
  def ofFields[T](fields: Seq[(String, Encoder[_])])(implicit cls: ClassTag[T]): Encoder[T] =
    ProductEncoder(
      cls,
      fields.map { case (name, encoder) =>
        EncoderField(name, boxed(agnosticEncoderFor(encoder)), nullable = true, Metadata.empty)
      },
      None
    )

  private def boxed(encoder: AgnosticEncoder[_]): AgnosticEncoder[_] = encoder match {
    case PrimitiveBooleanEncoder => BoxedBooleanEncoder
    case PrimitiveByteEncoder => BoxedByteEncoder
    case PrimitiveShortEncoder => BoxedShortEncoder
    case PrimitiveIntEncoder => BoxedIntEncoder
    case PrimitiveLongEncoder => BoxedLongEncoder
    case PrimitiveFloatEncoder => BoxedFloatEncoder
    case PrimitiveDoubleEncoder => BoxedDoubleEncoder
    case other => other
  }

  def ddl[T](ddl: String): Encoder[T] = (DataType.fromDDL(ddl) match {
    case struct: StructType => RowEncoder.encoderFor(struct)
    case other => RowEncoder.encoderForDataType(other, lenient = false)
  }).asInstanceOf[Encoder[T]]
}
