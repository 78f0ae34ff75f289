package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, CreateStruct, Literal, UnsafeProjection
}
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray

/** Late rows of a task, kept until the function's results have been read. If they are many, Spark
  * spills them to disk: relies on its array of rows for that.
  *
  * @param output
  *   the operator's output columns: a struct for each output
  * @param index
  *   which of these is for late rows; it has the columns that the function sees
  */
private[keystate] final class LateRows(output: Seq[Attribute], index: Int, input: InputColumns) {
  import LateRows._

  private val toOutput = UnsafeProjection.create(
    output.indices.map { i =>
      if (i == index) CreateStruct(input.seen) else Literal(null, output(i).dataType)
    },
    input.all
  )
  private val kept =
    new ExternalAppendOnlyUnsafeRowArray(InMemory, InMemoryBytes, Int.MaxValue, Long.MaxValue)

  def add(row: InternalRow): Unit = kept.add(toOutput(row))

  /** The rows in the operator's output columns. */
  def rows: Iterator[InternalRow] = kept.generateIterator()
}

private object LateRows {
  private val InMemory = 4096
  private val InMemoryBytes = 4L << 20
}
