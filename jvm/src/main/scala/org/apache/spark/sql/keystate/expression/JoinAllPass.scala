package org.apache.spark.sql.keystate.expression

import java.util.{HashMap => JHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import keystate.TimeDomain.EVENT_TIME
import org.apache.spark.sql.keystate.operator.{FunctionPass, OperatorTaskContext, TaskRows}
import org.apache.spark.sql.keystate.state.{DueTimers, Timer}

/** A task's pass over the rows of a join of many streams. Each row is kept once, in its key's value,
  * which is read when the key's first row comes, and written when the last row has come. A result
  * with a row of each stream goes out with the last of them; the others of an outer join go out by
  * timers, when the watermark has passed all that could be added to them.
  *
  * A key has one timer: when its first row is needed no more.
  */
private[expression] final class JoinAllPass(
    join: JoinAll,
    joined: JoinedRows,
    rows: TaskRows,
    due: DueTimers,
    context: OperatorTaskContext
) extends FunctionPass {
  import join.within

  private val streams = join.streams.size
  private val isStreaming = context.batch.streaming
  private val reader = context.inputs.head
  private val entries = new CountedEntries(context.entries.head)
  private val held = new JHashMap[UnsafeRow, KeyRows]
  private var holding = 0

  private val widths = join.streams.map(_.stored.size).toArray
  private val streamAt = join.key.size
  private val keyOfTimer = new UnsafeRow(join.key.size)
  private val lateUntil =
    if (join.late) context.lateWatermark.fold(Long.MinValue)(Micros.ofMillis) else Long.MinValue

  override def updated: Long = entries.updated
  override def removed: Long = entries.removed

  override val output: Iterator[InternalRow] =
    rows.flatMap(take) ++ Iterator.single(()).flatMap { _ =>
      context.lease.useInOneThread(writeAll())
      fired
    }

  private def take(row: InternalRow): Iterator[InternalRow] = {
    val key = reader.keys.key(row)
    val seen = reader.toColumns(row)
    val stream = seen.getInt(streamAt)
    val stored = seen.getStruct(streamAt + 2 + stream, widths(stream))
    if (!joined.hasTime(stream, stored))
      if (join.outer) Iterator.single(joined.untimed(key, stream, stored)) else Iterator.empty
    else {
      val own = joined.of(stream, stored)
      if (own.time <= lateUntil) Iterator.single(joined.late(key, stream, own))
      else {
        val found = add(stream, joined.of(stream, stored.copy()), ofKey(key, row))
        if (found == null) Iterator.empty else found.map(joined.result(key, _))
      }
    }
  }

  private def ofKey(key: UnsafeRow, row: InternalRow): KeyRows = {
    var own = held.get(key)
    if (own == null) {
      val copy = key.copy()
      val group = reader.keys.group(row)
      own = context.lease.useInOneThread {
        if (holding > JoinAllPass.MostHeld) writeAll()
        joined.read(copy.getBytes, group, entries.get(group, copy.getBytes))
      }
      held.put(copy, own)
      holding += own.size
    }
    own
  }

  /** Adds a row. Returns the results that it makes whole; null if there are none. */
  private def add(stream: Int, row: TimedRow, key: KeyRows): Combinations = {
    val (first, last) = (Micros.minus(row.time, within), Micros.plus(row.time, within))
    def isThere(other: StreamRows) = {
      val from = other.before(first)
      from < other.size && other.rows(from).time <= last
    }
    var isWhole = true
    var i = 0
    while (isWhole && i < streams) {
      isWhole = i == stream || isThere(key.streams(i))
      i += 1
    }
    key.streams(stream).add(row)
    holding += 1
    if (!isWhole) null
    else {
      val found = Array.tabulate(streams) { i =>
        val other = key.streams(i)
        if (i == stream) Array(row) else other.slice(other.before(first), other.upTo(last))
      }
      new Combinations(found, within, Long.MinValue)
    }
  }

  private def writeAll(): Unit = {
    held.values.forEach(write)
    held.clear()
    holding = 0
  }

  /** In a batch query nothing is removed but by an outer join, when all rows are there. */
  private def write(own: KeyRows): Unit = {
    if (!own.isEmpty) entries.put(own.group, own.bytes, joined.write(own))
    else if (own.isStored) entries.remove(own.group, own.bytes)
    val next = if (isStreaming || join.outer) own.next(within) else Long.MaxValue
    if (next != own.timer) {
      setTimer(own, own.timer, wanted = false)
      setTimer(own, next, wanted = true)
    }
  }

  private def setTimer(own: KeyRows, time: Long, wanted: Boolean): Unit =
    if (time < Long.MaxValue)
      context.timers.get.set(EVENT_TIME, Micros.millis(time), own.group, own.bytes, wanted)

  private def fired: Iterator[InternalRow] = context.firing(due).flatMap { timer =>
    val found = context.lease.useInOneThread(fire(timer))
    keyOfTimer.pointTo(timer.key, timer.key.length)
    found.map(joined.result(keyOfTimer, _))
  }

  /** Removes the rows of a timer's key that nothing can be added to any more. Returns the results of
    * an outer join whose first rows they are.
    */
  private def fire(timer: Timer): Iterator[Array[TimedRow]] =
    if (!context.timers.get.take(timer)) Iterator.empty
    else {
      val until =
        Micros.minus(Micros.ofMillis(context.watermark.getOrElse(Long.MinValue)), within)
      val own =
        joined.read(timer.key, timer.group, entries.get(timer.group, timer.key))
      own.timer = Long.MaxValue // this one
      val found =
        if (join.outer) new OuterResults(own, within, until) else Iterator.empty[Array[TimedRow]]
      own.streams.indices.foreach { i =>
        val stream = own.streams(i)
        val count = stream.upTo(until)
        if (count > 0) {
          if (join.outer) own.gone(i) = stream.rows(count - 1).time
          stream.removeFirst(count)
        }
        if (own.gone(i) <= Micros.minus(until, within)) own.gone(i) = Long.MinValue
      }
      write(own)
      found
    }
}

private object JoinAllPass {

  /** After so many rows what is held is written. */
  private val MostHeld = 1 << 17
}
