package keystate

import scala.reflect.runtime.universe.TypeTag

import org.apache.spark.sql.{Encoder, Row}

import org.apache.spark.sql.keystate.encoding.Encodings

/** How values of a type are stored: as Spark's encoders have them, so that Python finds them as the
  * same columns. One is there, without an import, for every type that Spark has an encoder for:
  * case classes, tuples, numbers, strings, dates and times, sequences, maps, options within these.
  */
final class TypeInformation[T] private (find: () => Encoder[T]) extends Serializable {
  @transient lazy val encoder: Encoder[T] = find()
}

object TypeInformation extends LowPriorityTypes {

  /** Rows of which Keystate knows the columns: those of the key. */
  implicit val row: TypeInformation[Row] = make(() =>
    throw new IllegalArgumentException(
      "the columns of a Row are not known here: give TypeInformation.ddl[Row](\"a long, b string\")"
    )
  )

  /** A type by Spark's name for it, for those that Scala has none for: `"decimal(10,2)"` with
    * `java.math.BigDecimal`, `"count long, total long"` with `Row`.
    */
  def ddl[T](ddl: String): TypeInformation[T] = make(() => Encodings.ddl[T](ddl))

  def of[T](encoder: Encoder[T]): TypeInformation[T] = make(() => encoder)

  def of[T](cls: Class[T]): TypeInformation[T] = make(() => Encodings.ofClass(cls))

  private[keystate] def make[T](find: () => Encoder[T]): TypeInformation[T] =
    new TypeInformation(find)
}

sealed trait LowPriorityTypes {
  implicit def derived[T: TypeTag]: TypeInformation[T] =
    TypeInformation.make(() => Encodings.ofTag[T])
}
