package org.apache.spark.sql.keystate.edit

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructType}

/** Finds nulls where a type allows none. Nothing else checks: a DataFrame may have other types, and
  * a query with this type may read the stored form of such a null as a value.
  */
private[edit] final class NullChecks(schema: StructType) {
  import NullChecks._

  private val columns: Seq[(Int, Find)] = fields(schema, "")

  /** The first one, as `key.account`; an element of an array is `value.tags.element`. */
  def in(row: InternalRow): Option[String] = first(columns, row)
}

private[edit] object NullChecks {

  /** The error text for a row with a null. */
  def told(where: String): String = s"its $where is null, and is declared as not null: leave the " +
    "row out, or declare it without 'not null', as the query then has to"

  /** Looks at a place in a row or in an array. */
  private type Find = (SpecializedGetters, Int) => Option[String]

  private def fields(schema: StructType, path: String): Seq[(Int, Find)] = for {
    (field, i) <- schema.zipWithIndex
    find <- placed(field.dataType, field.nullable, s"$path${field.name}")
  } yield (i, find)

  private def first(finds: Seq[(Int, Find)], row: SpecializedGetters): Option[String] =
    finds.iterator.flatMap { case (i, find) => find(row, i) }.nextOption()

  /** None if every part of the type may be null. */
  private def placed(kind: DataType, nullable: Boolean, path: String): Option[Find] = {
    val inside = within(kind, path)
    Option.when(!nullable || inside.isDefined) { (of, i) =>
      if (!of.isNullAt(i)) inside.flatMap(_(of, i))
      else Option.when(!nullable)(path)
    }
  }

  private def within(kind: DataType, path: String): Option[Find] = kind match {
    case struct: StructType =>
      val finds = fields(struct, s"$path.")
      Option.when(finds.nonEmpty)((of, i) => first(finds, of.getStruct(i, struct.length)))
    case ArrayType(element, nullable) =>
      elements(element, nullable, s"$path.element").map(find => (of, i) => find(of.getArray(i)))
    case MapType(key, value, nullable) =>
      val ofKeys = elements(key, nullable = true, s"$path.key") // null as a whole it never is
      val ofValues = elements(value, nullable, s"$path.value")
      Option.when(ofKeys.isDefined || ofValues.isDefined) { (of, i) =>
        val map = of.getMap(i)
        ofKeys.flatMap(_(map.keyArray())).orElse(ofValues.flatMap(_(map.valueArray())))
      }
    case _ => None
  }

  private def elements(
      kind: DataType,
      nullable: Boolean,
      path: String
  ): Option[ArrayData => Option[String]] = placed(kind, nullable, path).map { find => array =>
    (0 until array.numElements()).iterator.flatMap(find(array, _)).nextOption()
  }
}
