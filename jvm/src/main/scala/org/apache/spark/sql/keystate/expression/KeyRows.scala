package org.apache.spark.sql.keystate.expression

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow

/** A row of a stream: its time in us, and what is stored of it. */
private[expression] final class TimedRow(val time: Long, val stored: InternalRow)

/** The rows of a stream that are kept of a key, by time. */
private[expression] final class StreamRows(var rows: Array[TimedRow], var size: Int) {

  /** The number of rows before a time. */
  def before(time: Long): Int = {
    var (from, until) = (0, size)
    while (from < until) {
      val middle = (from + until) >>> 1
      if (rows(middle).time < time) from = middle + 1 else until = middle
    }
    from
  }

  /** The number of rows up to a time. */
  def upTo(time: Long): Int = if (time == Long.MaxValue) size else before(time + 1)

  def add(row: TimedRow): Unit = {
    if (size == rows.length) rows = Arrays.copyOf(rows, math.max(4, 2 * size))
    val at = upTo(row.time)
    System.arraycopy(rows, at, rows, at + 1, size - at)
    rows(at) = row
    size += 1
  }

  def removeFirst(count: Int): Unit = {
    System.arraycopy(rows, count, rows, 0, size - count)
    size -= count
  }

  def slice(from: Int, until: Int): Array[TimedRow] = Arrays.copyOfRange(rows, from, until)
}

/** What a join of many streams keeps of a key.
  *
  * @param gone
  *   of an outer join, for each stream the time of the last row that was removed, in us;
  *   `Long.MinValue` if there is none that could have been in a result with what is left
  */
private[expression] final class KeyRows(
    val bytes: Array[Byte],
    val group: Int,
    val streams: Array[StreamRows],
    val gone: Array[Long]
) {

  /** Whether there is an entry of it. */
  var isStored = false

  /** The time of its timer, in us; `Long.MaxValue` if it has none. */
  var timer: Long = Long.MaxValue

  def size: Int = streams.map(_.size).sum

  def isEmpty: Boolean = streams.forall(_.size == 0) && gone.forall(_ == Long.MinValue)

  /** When something of it can be removed. */
  def next(rule: JoinRule): Long = {
    var next = Long.MaxValue
    for (i <- streams.indices) {
      if (streams(i).size > 0)
        next = math.min(next, Micros.plus(streams(i).rows(0).time, rule.keep(i)))
      if (gone(i) > Long.MinValue)
        next = math.min(next, Micros.plus(Micros.plus(gone(i), rule.span), rule.span))
    }
    next
  }
}
