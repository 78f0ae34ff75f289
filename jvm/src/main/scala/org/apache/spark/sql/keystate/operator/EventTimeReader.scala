package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.types.StructType

/** Reads the event time of rows of these columns. */
private[keystate] final class EventTimeReader(columns: Seq[Attribute]) {

  /** The index of the column that the watermark is defined on. None if there is none. */
  val column: Option[Int] = Option(
    columns.indexWhere(_.metadata.contains(EventTimeWatermark.delayKey))
  ).filter(_ >= 0)

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
