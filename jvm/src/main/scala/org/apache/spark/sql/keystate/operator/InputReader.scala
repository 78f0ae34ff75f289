package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.types.StructType

import keystate.keygroup.KeyGroups

/** The columns of one input of an operator.
  *
  * @param all
  *   the columns of the incoming rows
  * @param seen
  *   the columns of `all` that the function sees
  * @param keys
  *   the columns of `all` that are the key
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

  /** Narrows a row to the columns that the function sees. */
  val toColumns: InternalRow => InternalRow =
    if (columns.seen == columns.all) identity
    else UnsafeProjection.create(columns.seen, columns.all)
}

/** Reads a row's key and key group. */
private[keystate] final class KeyReader(
    keys: Seq[Expression],
    input: Seq[Attribute],
    maxParallelism: Int
) {
  private val keyOf = UnsafeProjection.create(keys, input)
  private val hashOf = UnsafeProjection.create(Seq(new Murmur3Hash(keys)), input)

  /** The number of key columns. */
  val width: Int = keys.size

  /** The row's key; the same object at every call. */
  def key(row: InternalRow): UnsafeRow = keyOf(row)

  def group(row: InternalRow): Int = KeyGroups.groupOf(hashOf(row).getInt(0), maxParallelism)
}

/** Reads the event time of rows of these columns. */
private[keystate] final class EventTimeReader(columns: Seq[Attribute]) {

  /** The index of the column that the watermark is defined on. None if there is none. */
  val column: Option[Int] =
    Option(columns.indexWhere(_.metadata.contains(EventTimeWatermark.delayKey))).filter(_ >= 0)

  private val isWindow = column.exists(columns(_).dataType.isInstanceOf[StructType])

  /** The event time in milliseconds since the epoch. `Long.MinValue` if the row is null or has no
    * event time. A window is a struct of start and end; its event time is its end.
    */
  def millis(row: InternalRow): Long = column match {
    case Some(i) if row != null && !row.isNullAt(i) =>
      val micros = if (isWindow) row.getStruct(i, 2).getLong(1) else row.getLong(i)
      Math.floorDiv(micros, 1000L)
    case _ => Long.MinValue
  }
}
