package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, GenericInternalRow, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.types.TimestampType

import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.state.FamilyEntries

/** For each key and stream of an outer join the time of the last row that is gone, in us. It decides
  * whether such a row could have been added to what is left.
  */
private[expression] final class GoneTimes(entries: FamilyEntries, streams: Int)
    extends CountedEntries(entries) {
  private val row = new UnsafeRow(streams)
  private val told = new GenericInternalRow(streams)
  private val encoded = UnsafeProjection.create(
    Seq.tabulate(streams)(BoundReference(_, TimestampType, nullable = true))
  )

  /** The time for each stream; `Long.MinValue` if there is none. */
  def of(group: Int, key: Array[Byte]): Array[Long] = {
    val value = get(group, key)
    if (value == null) Array.fill(streams)(Long.MinValue)
    else {
      StateRows.point(row, value)
      Array.tabulate(streams)(i => if (row.isNullAt(i)) Long.MinValue else row.getLong(i))
    }
  }

  /** Keeps those times that are after another one. Returns the last of them. */
  def put(group: Int, key: Array[Byte], times: Array[Long], after: Long): Option[Long] = {
    times.indices.foreach { i =>
      if (times(i) > after) told.update(i, times(i)) else told.setNullAt(i)
    }
    val last = times.max
    if (last > after) {
      put(group, key, StateRows.encode(encoded(told)))
      Some(last)
    } else {
      if (get(group, key) != null) remove(group, key)
      None
    }
  }
}
