package org.apache.spark.sql.keystate.expression

import java.util.{HashMap => JHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import keystate.TimeDomain.EVENT_TIME
import keystate.backend.Entry
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.operator.{FunctionPass, OperatorTaskContext, TaskRows}
import org.apache.spark.sql.keystate.state.{DueTimers, Timer}

/** A task's pass over the rows of a join of many streams. Each row is kept once. A result with a row
  * of each stream goes out with the last of them; the others of an outer join go out by timers, when
  * the watermark has passed all that could be added to them.
  *
  * A key has a timer at or before the time at which its first row is needed no more.
  */
private[expression] final class JoinAllPass(
    join: JoinAll,
    results: JoinedResults,
    rows: TaskRows,
    due: DueTimers,
    context: OperatorTaskContext
) extends FunctionPass {
  import join.within

  private val streams = join.streams.size
  private val isStreaming = context.batch.streaming
  private val reader = context.inputs.head
  private val kept = Array.tabulate(streams) { i =>
    new TimedEntries(context.entries(i), JoinAll.RowKey, numbered = true)
  }
  private val gone = Option.when(join.outer)(new GoneTimes(context.entries(streams), streams))
  private val widths = join.streams.map(_.stored.size).toArray
  private val touched = new JHashMap[UnsafeRow, JoinAllPass.Touched]
  private val keyOfTimer = new UnsafeRow(join.key.size)

  private val streamAt = join.key.size
  private val timeAt = streamAt + 1
  private val lateUntil =
    if (join.late) context.lateWatermark.fold(Long.MinValue)(Micros.ofMillis) else Long.MinValue

  override def updated: Long = kept.map(_.updated).sum + gone.fold(0L)(_.updated)
  override def removed: Long = kept.map(_.removed).sum + gone.fold(0L)(_.removed)

  override val output: Iterator[InternalRow] =
    rows.flatMap(take) ++ Iterator.single(()).flatMap { _ =>
      context.lease.useInOneThread(setTimers())
      fired
    }

  private def take(row: InternalRow): Iterator[InternalRow] = {
    val key = reader.keys.key(row)
    val seen = reader.toColumns(row)
    val stream = seen.getInt(streamAt)
    val stored = seen.getStruct(timeAt + 1 + stream, widths(stream)).asInstanceOf[UnsafeRow]
    if (seen.isNullAt(timeAt))
      if (join.outer) Iterator.single(results.untimed(key, stream, stored)) else Iterator.empty
    else {
      val own = new TimedRow(seen.getLong(timeAt), stored)
      if (own.time <= lateUntil) Iterator.single(results.late(key, stream, own))
      else {
        val found = context.lease.useInOneThread(add(stream, own, touched(key, row)))
        if (found == null) Iterator.empty else found.map(results(key, _))
      }
    }
  }

  private def touched(key: UnsafeRow, row: InternalRow): JoinAllPass.Touched = {
    var own = touched.get(key)
    if (own == null) {
      val copy = key.copy()
      own = new JoinAllPass.Touched(copy.getBytes, reader.keys.group(row))
      touched.put(copy, own)
    }
    own
  }

  /** Keeps a row. Returns the results that it makes whole; null if there are none. */
  private def add(stream: Int, row: TimedRow, key: JoinAllPass.Touched): Combinations = {
    key.first = math.min(key.first, row.time)
    val found = new Array[Array[TimedRow]](streams)
    found(stream) = Array(row)
    var isWhole = true
    var i = 0
    while (isWhole && i < streams) {
      if (i != stream) {
        val (from, until) = (Micros.minus(row.time, within), Micros.plus(row.time, within))
        found(i) = timed(i, kept(i).between(key.group, key.bytes, from, until))
        isWhole = found(i).nonEmpty
      }
      i += 1
    }
    keep(kept(stream), row, key)
    if (isWhole) new Combinations(found, within, Long.MinValue) else null
  }

  private def keep(entries: TimedEntries, row: TimedRow, key: JoinAllPass.Touched): Unit = {
    val value = StateRows.encode(row.stored.asInstanceOf[UnsafeRow])
    var entry = entries.entry(key.bytes, row.time)
    if (entries.get(key.group, entry) != null) {
      val last = entries.lastBefore(key.group, key.bytes, Micros.plus(row.time, 1))
      entry = entries.entry(key.bytes, row.time, entries.number(last.key) + 1)
    }
    entries.put(key.group, entry, value)
  }

  private def timed(stream: Int, entries: Seq[Entry]): Array[TimedRow] = {
    val rows = new Array[TimedRow](entries.size)
    var i = 0
    entries.foreach { entry =>
      val stored = new UnsafeRow(widths(stream))
      StateRows.point(stored, entry.value)
      rows(i) = new TimedRow(kept(stream).time(entry.key), stored)
      i += 1
    }
    rows
  }

  /** In a batch query nothing is removed but by an outer join, when all rows are there. */
  private def setTimers(): Unit = {
    if (isStreaming || join.outer) touched.values.forEach { own =>
      setTimer(own.group, own.bytes, Micros.plus(own.first, within))
    }
    touched.clear()
  }

  private def setTimer(group: Int, key: Array[Byte], time: Long): Unit =
    if (time < Long.MaxValue)
      context.timers.get.set(EVENT_TIME, Micros.millis(time), group, key, wanted = true)

  private def fired: Iterator[InternalRow] = context.firing(due).flatMap { timer =>
    val found = context.lease.useInOneThread(fire(timer))
    keyOfTimer.pointTo(timer.key, timer.key.length)
    found.map(results(keyOfTimer, _))
  }

  /** Removes the rows of a timer's key that nothing can be added to any more. Returns the results of
    * an outer join whose first rows they are.
    */
  private def fire(timer: Timer): Iterator[Array[TimedRow]] =
    if (!context.timers.get.take(timer)) Iterator.empty
    else {
      val watermark = Micros.ofMillis(context.watermark.getOrElse(Long.MinValue))
      val until = Micros.minus(watermark, within)
      val there = gone.map { times =>
        val rows = kept.indices.map { i =>
          timed(i, kept(i).between(timer.group, timer.key, Long.MinValue, watermark))
        }
        new OuterResults(rows.toArray, times.of(timer.group, timer.key), within, until)
      }
      val next = kept.map(removeUntil(_, timer, until)).min
      val forgotten = gone.zip(there).fold(Long.MaxValue) { case (times, found) =>
        times.put(timer.group, timer.key, found.goneAfter, Micros.minus(until, within)) match {
          case Some(last) => Micros.plus(Micros.plus(last, within), within)
          case None => Long.MaxValue
        }
      }
      setTimer(timer.group, timer.key, math.min(Micros.plus(next, within), forgotten))
      there.fold(Iterator.empty[Array[TimedRow]])(_.iterator)
    }

  /** Removes the first rows of a key. Returns the time of the first one that is left. */
  private def removeUntil(entries: TimedEntries, timer: Timer, until: Long): Long = {
    var next = Long.MaxValue
    val removed = entries.firsts(timer.group, timer.key) { entry =>
      val time = entries.time(entry.key)
      if (time > until) next = time
      time <= until
    }
    removed.foreach(entry => entries.remove(timer.group, entry.key))
    next
  }
}

private object JoinAllPass {

  /** A key that has rows in a micro-batch, with the first one's time. */
  private final class Touched(val bytes: Array[Byte], val group: Int) {
    var first: Long = Long.MaxValue
  }
}
