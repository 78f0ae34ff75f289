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
  import join.rule

  private val streams = join.streams.size
  private val isStreaming = context.batch.streaming
  private val reader = context.inputs.head
  private val entries = new CountedEntries(context.entries.head)
  private val held = new JHashMap[UnsafeRow, KeyRows]
  private var holding = 0

  private val widths = join.streams.map(_.stored.size).toArray
  private val streamAt = join.key.size
  private val keyOfTimer = new UnsafeRow(join.key.size)
  private val reach = Array.tabulate(streams, streams)(rule.reach(_, _))

  /** Where a row of the first stream says whether it was in a result; None if it does not say so. */
  private val matched = rule match {
    case _: Between => Some(widths(0) - 1)
    case _: Within => None
  }
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
      if (showsAlone(stream)) Iterator.single(joined.untimed(key, stream, stored))
      else Iterator.empty
    else {
      val own = joined.of(stream, stored.copy())
      if (own.time <= lateUntil) Iterator.single(joined.late(key, stream, own))
      else {
        val found = add(stream, own, ofKey(key, row))
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

  /** Whether rows of a stream go out without others. */
  private def showsAlone(stream: Int) = rule.isOuter && (matched.isEmpty || stream == 0)

  /** Adds a row. Returns the results that it makes whole; null if there are none. */
  private def add(stream: Int, row: TimedRow, key: KeyRows): Combinations = {
    var isWhole = true
    var i = 0
    while (isWhole && i < streams) {
      isWhole = i == stream || {
        val (first, last) = reach(stream)(i)
        val other = key.streams(i)
        val from = other.before(Micros.plus(row.time, first))
        from < other.size && other.rows(from).time <= Micros.plus(row.time, last)
      }
      i += 1
    }
    key.streams(stream).add(row)
    holding += 1
    if (!isWhole) null
    else {
      val found = Array.tabulate(streams) { i =>
        if (i == stream) Array(row) else near(row.time, reach(stream)(i), key.streams(i))
      }
      for (at <- matched; first <- found(0)) first.stored.setBoolean(at, true)
      new Combinations(found, rule.span, Long.MinValue)
    }
  }

  private def near(time: Long, reach: (Long, Long), other: StreamRows) =
    other.slice(other.before(Micros.plus(time, reach._1)), other.upTo(Micros.plus(time, reach._2)))

  private def writeAll(): Unit = {
    held.values.forEach(write)
    held.clear()
    holding = 0
  }

  /** In a batch query nothing is removed but by an outer join, when all rows are there. */
  private def write(own: KeyRows): Unit = {
    if (!own.isEmpty) entries.put(own.group, own.bytes, joined.write(own))
    else if (own.isStored) entries.remove(own.group, own.bytes)
    val next = if (isStreaming || rule.isOuter) own.next(rule) else Long.MaxValue
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
    * an outer join that have them.
    */
  private def fire(timer: Timer): Iterator[Array[TimedRow]] =
    if (!context.timers.get.take(timer)) Iterator.empty
    else {
      val watermark = Micros.ofMillis(context.watermark.getOrElse(Long.MinValue))
      val own = joined.read(timer.key, timer.group, entries.get(timer.group, timer.key))
      own.timer = Long.MaxValue // this one
      val found = rule match {
        case Within(within, true) => new OuterResults(own, within, Micros.minus(watermark, within))
        case Between(_, upper, true) => unmatched(own.streams(0), Micros.minus(watermark, upper))
        case _ => Iterator.empty[Array[TimedRow]]
      }
      own.streams.indices.foreach(removeUntil(own, _, watermark))
      write(own)
      found
    }

  private def unmatched(first: StreamRows, until: Long): Iterator[Array[TimedRow]] =
    first.slice(0, first.upTo(until)).iterator.collect {
      case row if !row.stored.getBoolean(matched.get) => Array(row, null)
    }

  private def removeUntil(own: KeyRows, i: Int, watermark: Long): Unit = {
    val stream = own.streams(i)
    val until = Micros.minus(watermark, rule.keep(i))
    val count = stream.upTo(until)
    rule match {
      case Within(within, true) =>
        if (count > 0) own.gone(i) = stream.rows(count - 1).time
        if (own.gone(i) <= Micros.minus(until, within)) own.gone(i) = Long.MinValue
      case _ => own.gone(i) = Long.MinValue
    }
    if (count > 0) stream.removeFirst(count)
  }
}

private object JoinAllPass {

  /** After so many rows what is held is written. */
  private val MostHeld = 1 << 17
}
