package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}

/** The broadcast rows of a task: in every task of a micro-batch the same rows in the same order. */
private[keystate] final class BroadcastInput(
    val columns: Seq[Attribute],
    output: Seq[Attribute],
    val rows: Array[InternalRow]
) {
  def iterator: Iterator[InternalRow] =
    if (columns == output) rows.iterator
    else rows.iterator.map(UnsafeProjection.create(columns, output))
}
