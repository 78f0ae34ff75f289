package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}

/** The columns of one input of an operator.
  *
  * @param all
  *   the columns of the rows that come in
  * @param seen
  *   those of `all` that the function sees
  * @param keys
  *   those of `all` that are the key
  */
private[keystate] final case class InputColumns(
    all: Seq[Attribute],
    seen: Seq[Attribute],
    keys: Seq[Attribute]
)

/** Reads the rows of one input. */
private[keystate] final class InputReader(columns: InputColumns, maxParallelism: Int) {
  val keys = new KeyReader(Routing.normalized(columns.keys), columns.all, maxParallelism)

  /** Reads the event time of rows with the columns that the function sees. */
  val eventTime = new EventTimeReader(columns.seen)

  /** Narrows a row to what the function sees. */
  val toColumns: InternalRow => InternalRow =
    if (columns.seen == columns.all) identity
    else UnsafeProjection.create(columns.seen, columns.all)
}
