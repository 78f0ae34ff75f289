package org.apache.spark.sql.keystate.table

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.expressions.{Literal => V2Literal, NamedReference}
import org.apache.spark.sql.types.{DataType, LongType}

/** The part of a table that a query's filters leave. Spark filters the rows as well: so an
  * unsupported filter here only costs time.
  *
  * @param predicates
  *   conditions that all hold
  */
private[table] final class TableFilters(predicates: Seq[Predicate], table: StoredTable) {
  import TableFilters._

  private val keySchema = table.keySchema

  /** The keys, if the filters determine them completely, and there are not too many. */
  val keys: Option[Seq[InternalRow]] =
    if (!UnsafeRowUtils.isBinaryStable(keySchema)) None
    else whole.orElse(byColumns)

  private def whole: Option[Seq[InternalRow]] = predicates
    .flatMap(values(_, Seq(StoredTable.Key), keySchema))
    .headOption
    .map(_.collect { case row: InternalRow => row })

  private def byColumns: Option[Seq[InternalRow]] = {
    val columns = keySchema.map { field =>
      predicates.flatMap(values(_, Seq(StoredTable.Key, field.name), field.dataType)).headOption
    }
    Option
      .when(columns.nonEmpty && columns.forall(_.isDefined))(columns.flatten)
      .filter(_.map(_.size.toLong).product <= MostKeys)
      .map { columns =>
        columns
          .foldLeft(Seq(Vector.empty[Any])) { (begun, values) =>
            for (key <- begun; value <- values) yield key :+ value
          }
          .map(InternalRow.fromSeq)
      }
  }

  /** The first and the last version that are wanted. */
  val versions: (Long, Long) =
    predicates.foldLeft((0L, Long.MaxValue)) { case ((first, last), predicate) =>
      (predicate.name, predicate.children) match {
        case (name, Array(Reference(StoredTable.Version), Value(bound: Long, LongType))) =>
          name match {
            case "=" | "<=>" => (first.max(bound), last.min(bound))
            case ">" => (first.max(bound + 1), last)
            case ">=" => (first.max(bound), last)
            case "<" => (first, last.min(bound - 1))
            case "<=" => (first, last.min(bound))
            case _ => (first, last)
          }
        case _ => (first, last)
      }
    }

  /** The filters that make a scan read less. */
  def used: Array[Predicate] = predicates.filter { predicate =>
    val names = predicate.references.map(_.fieldNames.head).toSet
    names == Set(StoredTable.Key) && keys.isDefined ||
    names == Set(StoredTable.Version) && table.ofChanges
  }.toArray
}

private object TableFilters {

  /** More keys are not looked up one by one. */
  private val MostKeys = 1000L

  private object Reference {
    def unapplySeq(reference: NamedReference): Some[Seq[String]] =
      Some(reference.fieldNames.toSeq)
  }

  private object Value {
    def unapply(literal: V2Literal[_]): Some[(Any, DataType)] =
      Some((literal.value, literal.dataType))
  }

  /** The values that a predicate leaves to a column; None if it is not about it. */
  private def values(
      predicate: Predicate,
      column: Seq[String],
      dataType: DataType
  ): Option[Seq[Any]] = {
    def fits(found: DataType) = DataType.equalsStructurally(found, dataType, true)
    (predicate.name, predicate.children.toSeq) match {
      case ("=", Seq(Reference(names @ _*), Value(value, found))) if names == column =>
        Option.when(value != null && fits(found))(Seq(value))
      case ("<=>", Seq(Reference(names @ _*), Value(value, found))) if names == column =>
        Option.when(value == null || fits(found))(Seq(value))
      case ("IS_NULL", Seq(Reference(names @ _*))) if names == column => Some(Seq(null))
      case ("IN", Reference(names @ _*) +: literals) if names == column =>
        val among = literals.collect { case Value(value, found) if fits(found) => value }
        Option
          .when(among.size == literals.size && among.size <= MostKeys)(among)
          .map(_.filter(_ != null).distinct)
      case _ => None
    }
  }
}
