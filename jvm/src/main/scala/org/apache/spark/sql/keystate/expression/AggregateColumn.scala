package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.types.{StructField, StructType}

/** A function of Spark's that is applied to rows.
  *
  * @param function
  *   over columns of the input and literals
  * @param filter
  *   a boolean column of the input: only rows in which it is true count. None: all rows do
  */
private[keystate] final case class FilteredFunction(
    function: AggregateFunction,
    filter: Option[Attribute]
)

/** The functions of one aggregate of a query. The column of the result may be an expression over
  * several functions.
  *
  * @param name
  *   the name of the column, under which the state keeps the functions' buffers
  */
private[keystate] final case class AggregateColumn(name: String, functions: Seq[FilteredFunction]) {

  /** The buffers of its functions, as the state keeps them. */
  def stored: StructField = {
    val buffers = functions.flatMap(_.function.aggBufferAttributes)
    val names = buffers.map(_.name)
    val fields = buffers.zipWithIndex.map { case (buffer, i) =>
      val earlier = names.take(i).count(_ == buffer.name)
      val name = if (earlier == 0) buffer.name else s"${buffer.name} ${earlier + 1}"
      StructField(name, buffer.dataType)
    }
    StructField(name, StructType(fields))
  }
}

private[keystate] object AggregateColumn {

  /** The type of the state: a struct for each column, so that columns may come and go. */
  def stateType(columns: Seq[AggregateColumn]): StructType = StructType(columns.map(_.stored))
}

/** The rows that aggregates are made of. */
private[keystate] sealed trait AggregateInput {

  /** The columns of a row. */
  def columns: Seq[Attribute]
}

private[keystate] object AggregateInput {

  /** Rows of the input. */
  final case class Rows(columns: Seq[Attribute]) extends AggregateInput

  /** Buffers that were begun before the shuffle.
    *
    * @param columns
    *   the columns before the buffers
    */
  final case class Begun(columns: Seq[Attribute]) extends AggregateInput
}
