package keystate

import scala.reflect.ClassTag
import scala.reflect.runtime.universe.TypeTag

import org.apache.spark.sql.{Encoder, Row}

import org.apache.spark.sql.keystate.encoding.Encodings

/** How values of a type are stored: in the form of Spark's encoders, so that Python finds them as
  * the same columns.
  *
  * An implicit, which needs no import, exists for every type with a Spark encoder: case classes,
  * tuples, numbers, strings, dates and times, sequences, maps, and options within these. For a type
  * without an encoder, `encoder` throws the error: when the state is got, or when a stream is made.
  */
final class TypeInformation[T] private (find: () => Encoder[T]) extends Serializable {

  /** Spark's encoder, found on first use. */
  @transient lazy val encoder: Encoder[T] = find()
}

object TypeInformation extends LowPriorityTypes {

  /** A Row whose columns Keystate knows, which are the key's columns. For any other Row `encoder`
    * throws IllegalArgumentException: use `ddl`.
    */
  implicit val row: TypeInformation[Row] = make(() =>
    throw new IllegalArgumentException(
      "the columns of a Row are not known here: give TypeInformation.ddl[Row](\"a long, b string\")"
    )
  )

  /** A type by its name in Spark SQL, for types without a Scala class of their own:
    * `"decimal(10,2)"` for `java.math.BigDecimal`, `"count long, total long"` for `Row`. Nobody
    * checks that T is the type of such values.
    */
  def ddl[T](ddl: String): TypeInformation[T] = make(() => Encodings.ddl[T](ddl))

  /** The type of an encoder. */
  def of[T](encoder: Encoder[T]): TypeInformation[T] = make(() => encoder)

  /** The type of a class that Spark has an encoder for from Java: boxed types, strings, beans. */
  def of[T](cls: Class[T]): TypeInformation[T] = make(() => Encodings.ofClass(cls))

  /** Flink's form of naming a type: `TypeInformation.of(new TypeHint[(String, Int)]() {})`. */
  def of[T: TypeTag](hint: TypeHint[T]): TypeInformation[T] = derived[T]

  /** A case class of Keystate itself with some fields of the user's types. Each of these fields may
    * be null, even a number.
    */
  private[keystate] def struct[T: ClassTag](fields: (String, TypeInformation[_])*) =
    make(() => Encodings.ofFields[T](fields.map { case (name, of) => name -> of.encoder }))

  private[keystate] def make[T](find: () => Encoder[T]): TypeInformation[T] =
    new TypeInformation(find)
}

/** Names a type for [[TypeInformation.of[T](hint*]]. */
abstract class TypeHint[T]

/** Provides types for which there is no other implicit. */
sealed trait LowPriorityTypes {

  /** The type, with an encoder that Spark derives. */
  implicit def derived[T: TypeTag]: TypeInformation[T] =
    TypeInformation.make(() => Encodings.ofTag[T])
}
