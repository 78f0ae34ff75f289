package org.apache.spark.sql.keystate.expression

import java.util.{HashMap => JHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, SpecificInternalRow, UnsafeRow}
import org.apache.spark.sql.types.TimestampType

import org.apache.spark.sql.keystate.metrics.MetricValues
import org.apache.spark.sql.keystate.operator.{
  FunctionPass, LateRows, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.state.{DueTimers, Timer}

/** A task's pass over rows and timers, for aggregates of windows. A window's buffers are read when
  * its first row comes, and written when the last row has come. Then the windows fire that the clock
  * has passed.
  */
private[expression] final class WindowAggregates(
    function: Aggregation,
    windows: Windows,
    buffers: AggregateBuffers,
    rows: TaskRows,
    due: DueTimers,
    context: OperatorTaskContext
) extends FunctionPass {
  private val reader = context.inputs.head
  private val timers = context.timers.get
  private val stored =
    new StoredWindows(context.entries.head, timers, windows.byEventTime, windows.lateness)
  private val held = new JHashMap[UnsafeRow, KeyWindows]
  private var holding = 0

  private val time = function.time.getOrElse(-1)
  private val lateWatermark =
    if (windows.byEventTime) context.lateWatermark.getOrElse(Long.MinValue) else Long.MinValue
  private val lateRows = for {
    columns <- function.late
    index <- context.spec.lateOutputs.headOption.flatten
  } yield {
    val input = context.columns.inputs.head
    new LateRows(context.columns.output, index, input.copy(seen = input.seen.take(columns)))
  }
  private var late = 0L

  private val key = new UnsafeRow(reader.keys.width)
  private val bounds = new SpecificInternalRow(Seq(TimestampType, TimestampType))
  private val told = new JoinedRow(key, bounds)

  override def updated: Long = stored.updated
  override def removed: Long = stored.removed

  override val output: Iterator[InternalRow] = Iterator.single(()).flatMap { _ =>
    context.lease.useInOneThread {
      while (rows.hasNext) {
        take(rows.next())
        if (holding > buffers.mostHeld) write()
      }
      write()
    }
    if (windows.byEventTime) context.addMetrics(MetricValues(Map(Aggregation.LateRows -> late)))
    fired ++ lateRows.iterator.flatMap(_.rows)
  }

  private def take(row: InternalRow): Unit = {
    val seen = reader.toColumns(row)
    val at =
      if (time >= 0) Math.floorDiv(seen.getLong(time), 1000L) else context.processingTime
    val isLate = windows.bounds match {
      case fixed: FixedBounds => isTooLate(fixed, at, row, seen)
      case sessions: SessionBounds => isTooLate(sessions, at, row, seen)
    }
    if (isLate) lateRows match {
      case Some(kept) => kept.add(row)
      case None => late += function.count.fold(1L)(seen.getLong)
    }
  }

  private def isOver(last: Long): Boolean = stored.goes(last) <= lateWatermark

  /** Adds a row to its windows. Whether all of them are over. */
  private def isTooLate(
      fixed: FixedBounds,
      at: Long,
      row: InternalRow,
      seen: InternalRow
  ): Boolean = {
    var start = fixed.lastStart(at)
    var found = false
    var taken = false
    var own: KeyWindows = null
    while (start > at - fixed.size) {
      found = true
      val end = start + fixed.size
      if (!isOver(end - 1)) {
        if (own == null) own = ofKey(row)
        buffers.add(windowOf(own, start, end).buffers, seen)
        taken = true
      }
      start -= fixed.slide
    }
    found && !taken
  }

  private def windowOf(own: KeyWindows, start: Long, end: Long): KeyWindow = {
    val i = own.indexOf(start)
    if (i < own.size && own(i).start == start) own(i)
    else {
      val window = read(own, start, end)
      window.isChanged = true
      own.insert(i, window)
      holding += 1
      window
    }
  }

  private def read(own: KeyWindows, start: Long, end: Long): KeyWindow = {
    val open = stored.keyOf(own.bytes, isOpen = true, end, start)
    var (entry, value) = (open, stored.get(own.group, open))
    if (value == null && windows.lateness > 0) {
      entry = stored.keyOf(own.bytes, isOpen = false, end, start)
      value = stored.get(own.group, entry)
    }
    if (value == null) new KeyWindow(start, end, buffers.create(), Nil, isOpen = false)
    else new KeyWindow(start, end, buffers.read(value), List(entry), isOpen = entry eq open)
  }

  /** Adds a row to its session, into which it may bring several together. Whether that is over. */
  private def isTooLate(
      sessions: SessionBounds,
      at: Long,
      row: InternalRow,
      seen: InternalRow
  ): Boolean = {
    var (start, end) = (at, at + sessions.gap)
    val own = ofKey(row)
    val until = own.indexOf(end + 1) // sessions that touch are merged
    var from = until
    while (from > 0 && own(from - 1).end >= start) {
      from -= 1
      start = math.min(start, own(from).start)
      end = math.max(end, own(from).end)
    }
    val late = isOver(end - 1)
    if (!late) {
      val window =
        if (from == until) {
          holding += 1
          new KeyWindow(start, end, buffers.create(), Nil, isOpen = false)
        } else merged(own, from, until)
      buffers.add(window.buffers, seen)
      window.start = start
      window.end = end
      window.isChanged = true
      own.remove(from, until)
      own.insert(from, window)
    }
    late
  }

  private def merged(own: KeyWindows, from: Int, until: Int): KeyWindow = {
    val first = own(from)
    for (i <- from + 1 until until) {
      buffers.merge(first.buffers, own(i).buffers)
      first.stored = own(i).stored ::: first.stored
    }
    first
  }

  private def ofKey(row: InternalRow): KeyWindows = {
    val key = reader.keys.key(row)
    var own = held.get(key)
    if (own == null) {
      val copy = key.copy()
      own = new KeyWindows(copy, copy.getBytes, reader.keys.group(row))
      held.put(copy, own)
      if (windows.bounds.isInstanceOf[SessionBounds]) readAll(own)
    }
    own
  }

  private def readAll(own: KeyWindows): Unit =
    stored.all(own.group, own.bytes).foreach { window =>
      val time = if (window.isOpen) window.last else stored.goes(window.last)
      own.timer = math.min(own.timer, time)
      own.insert(
        own.indexOf(window.start),
        new KeyWindow(
          window.start,
          window.end,
          buffers.read(window.value),
          List(window.key),
          window.isOpen
        )
      )
      holding += 1
    }

  /** Writes what is held. */
  private def write(): Unit = {
    val keys = held.values.iterator
    while (keys.hasNext) write(keys.next())
    held.clear()
    holding = 0
  }

  private def write(own: KeyWindows): Unit = {
    val isSession = windows.bounds.isInstanceOf[SessionBounds]
    var first = StoredWindows.Never // of those that were not open, or of all sessions
    var i = 0
    while (i < own.size) {
      val window = own(i)
      if (isSession && !window.isOpen && !window.isChanged)
        first = math.min(first, stored.goes(window.last))
      else if (isSession || !window.isOpen) first = math.min(first, window.last)
      i += 1
    }
    if (isSession) stored.moveTimer(own.group, own.bytes, own.timer, first)
    else if (first != StoredWindows.Never) {
      val before = stored.earliest(own.group, own.bytes)
      if (first < before) stored.moveTimer(own.group, own.bytes, before, first)
    }
    i = 0
    while (i < own.size) {
      if (own(i).isChanged) write(own, own(i))
      i += 1
    }
  }

  private def write(own: KeyWindows, window: KeyWindow): Unit = {
    val entry = stored.keyOf(own.bytes, isOpen = true, window.end, window.start)
    window.stored.foreach { before =>
      if (!java.util.Arrays.equals(before, entry)) stored.remove(own.group, before)
    }
    stored.put(own.group, entry, buffers.write(window.buffers))
  }

  /** The results of the windows that fire. */
  private def fired: Iterator[InternalRow] = {
    val until = end
    if (context.batch.realTime && !windows.byEventTime)
      due ++= context.lease.use(timers.upTo(None, Some(until)))
    context.firing(due).flatMap { timer =>
      val ended = context.lease.useInOneThread(fire(timer, until))
      key.pointTo(timer.key, timer.key.length)
      ended.iterator.map(result)
    }
  }

  /** The time up to which windows fire now. */
  private def end: Long =
    if (!context.batch.streaming) Long.MaxValue
    else if (windows.byEventTime) context.watermark.getOrElse(Long.MinValue)
    else context.processingTime

  /** Takes the windows of a timer's key that are over. Returns those that fire. */
  private def fire(timer: Timer, until: Long): Seq[StoredWindow] =
    if (!timers.take(timer)) Nil
    else {
      val (over, next) = stored.over(timer.group, timer.key, until)
      var first = next
      over.foreach { window =>
        stored.remove(timer.group, window.key)
        val goes = stored.goes(window.last)
        if (window.isOpen && goes > until) {
          val kept = stored.keyOf(timer.key, isOpen = false, window.end, window.start)
          stored.put(timer.group, kept, window.value)
          first = math.min(first, goes)
        }
      }
      stored.moveTimer(timer.group, timer.key, StoredWindows.Never, first)
      over.filter(_.isOpen)
    }

  private def result(window: StoredWindow): InternalRow = {
    bounds.setLong(0, window.start * 1000)
    bounds.setLong(1, window.end * 1000)
    buffers.results(told, buffers.read(window.value))
  }
}
