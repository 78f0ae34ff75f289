package keystate

import scala.reflect.ClassTag
import scala.reflect.runtime.universe.TypeTag

import org.apache.spark.sql.{Encoder, Row}

import org.apache.spark.sql.keystate.encoding.Encodings

/** How values of a type are stored: as Spark's encoders have them, so that Python finds them as the
  * same columns.
  *
  * There is one, without an import, for every type that Spark has an encoder for: case classes,
  * tuples, numbers, strings, dates and times, sequences, maps, and options within these. For a type
  * without encoder the error comes from `encoder`: when the state is got, or when a stream is made.
  */
final class TypeInformation[T] private (find: () => Encoder[T]) extends Serializable {

  /** Spark's encoder, found when it is first asked for. */
  @transient lazy val encoder: Encoder[T] = find()
}

object TypeInformation extends LowPriorityTypes {

  /** Rows of which Keystate knows the columns, which are those of the key. For any other row
    * `encoder` throws IllegalArgumentException: use `ddl`.
    */
  implicit val row: TypeInformation[Row] = make(() =>
    throw new IllegalArgumentException(
      "the columns of a Row are not known here: give TypeInformation.ddl[Row](\"a long, b string\")"
    )
  )

  /** A type by Spark's name for it, for those that Scala has none for: `"decimal(10,2)"` for
    * `java.math.BigDecimal`, `"count long, total long"` for `Row`. That T is the type of such
    * values is not checked.
    */
  def ddl[T](ddl: String): TypeInformation[T] = make(() => Encodings.ddl[T](ddl))

  /** The type of an encoder. */
  def of[T](encoder: Encoder[T]): TypeInformation[T] = make(() => encoder)

  /** The type of a class that Spark has an encoder for from Java: boxed types, strings, beans. */
  def of[T](cls: Class[T]): TypeInformation[T] = make(() => Encodings.ofClass(cls))

  /** Flink's way to name a type: `TypeInformation.of(new TypeHint[(String, Int)]() {})`. */
  def of[T: TypeTag](hint: TypeHint[T]): TypeInformation[T] = derived[T]

  /** A case class of Keystate's own, some of whose fields are of the user's types. Each of them may
    * be null, also those of numbers.
    */
  private[keystate] def struct[T: ClassTag](fields: (String, TypeInformation[_])*) =
    make(() => Encodings.ofFields[T](fields.map { case (name, of) => name -> of.encoder }))

  private[keystate] def make[T](find: () => Encoder[T]): TypeInformation[T] =
    new TypeInformation(find)
}

/** Names a type for [[TypeInformation.of[T](hint*]]. */
abstract class TypeHint[T]

/** Finds types that no other implicit gives. */
sealed trait LowPriorityTypes {

  /** The type that Spark derives an encoder for. */
  implicit def derived[T: TypeTag]: TypeInformation[T] =
    TypeInformation.make(() => Encodings.ofTag[T])
}
