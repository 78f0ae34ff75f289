package org.apache.spark.sql.keystate.expression

import java.util.{HashMap => JHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.TimestampType

import keystate.TimeDomain.EVENT_TIME
import keystate.backend.Entry
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.operator.{FunctionPass, OperatorTaskContext, TaskRows}
import org.apache.spark.sql.keystate.state.{DueTimers, Timer}

/** A task's pass over the rows of an as-of join: the right ones come first. Left rows that wait go
  * out by timers, in order of time.
  *
  * A key has a timer at or before the time at which its first waiting row is complete, and one at
  * which its oldest right row is needed no more, as far as the newest right row of a micro-batch
  * tells.
  */
private[expression] final class AsOfPass(
    join: AsOfJoin,
    made: AsOfRows,
    rows: TaskRows,
    due: DueTimers,
    context: OperatorTaskContext
) extends FunctionPass {
  import AsOfPass._
  import join.{left, matching, right}
  import made.{storedLeft, storedRight}

  private val isStreaming = context.batch.streaming
  private val waits = join.waits && isStreaming
  private val readers = context.inputs
  private val rights =
    new TimedEntries(context.entries.head, TimestampType, numbered = false)
  private val lefts = context.entries.drop(1).headOption.map { waiting =>
    new TimedEntries(waiting, AsOfJoin.LeftKey, numbered = true)
  }
  private val touched = new JHashMap[UnsafeRow, Touched]

  override def updated: Long = rights.updated + lefts.fold(0L)(_.updated)
  override def removed: Long = rights.removed + lefts.fold(0L)(_.removed)

  override val output: Iterator[InternalRow] =
    rows.flatMap(take(_)) ++ Iterator.single(()).flatMap { _ =>
      context.lease.useInOneThread(setTimers())
      fired
    }

  private def take(row: InternalRow): Option[InternalRow] = context.lease.useInOneThread {
    val reader = readers(rows.input)
    val key = reader.keys.key(row)
    val seen = reader.toColumns(row)
    if (rows.input == Right) {
      if (!seen.isNullAt(right.time)) keep(of(key, row, reader.keys.group), seen)
      None
    } else if (seen.isNullAt(left.time)) unmatched(seen)
    else if (waits) {
      await(of(key, row, reader.keys.group), seen)
      None
    } else {
      val found = find(reader.keys.group(row), key.getBytes, seen.getLong(left.time))
      if (found == null) unmatched(seen) else Some(result(seen, found))
    }
  }

  private def of(key: UnsafeRow, row: InternalRow, group: InternalRow => Int): Touched = {
    var own = touched.get(key)
    if (own == null) {
      val copy = key.copy()
      own = new Touched(copy.getBytes, group(row))
      touched.put(copy, own)
    }
    own
  }

  /** Keeps a right row; of those of one time the last by their order, or that came last. */
  private def keep(own: Touched, row: InternalRow): Unit = {
    val time = row.getLong(right.time)
    own.newest = math.max(own.newest, time)
    val entry = rights.entry(own.key, time)
    val isLast = made.order.forall { order =>
      val there = rights.get(own.group, entry)
      there == null || {
        StateRows.point(storedRight, there)
        order.compare(row, storedRight) >= 0
      }
    }
    if (isLast) rights.put(own.group, entry, StateRows.encode(made.right(row)))
  }

  private def await(own: Touched, row: InternalRow): Unit = {
    val time = row.getLong(left.time)
    val waiting = lefts.get
    own.first = math.min(own.first, time)
    val last = waiting.lastBefore(own.group, own.key, time + 1)
    val number =
      if (last == null || waiting.time(last.key) != time) 0 else waiting.number(last.key) + 1
    waiting.put(own.group, waiting.entry(own.key, time, number), StateRows.encode(made.left(row)))
  }

  private def setTimers(): Unit = if (isStreaming) context.timers.foreach { timers =>
    touched.values.forEach { own =>
      def at(micros: Long) =
        if (micros < Long.MaxValue)
          timers.set(EVENT_TIME, Micros.millis(micros), own.group, own.key, true)
      if (own.first < Long.MaxValue) at(matching.complete(own.first))
      if (own.newest > Long.MinValue) {
        // Then it is the only one that is looked back for, and later none is.
        if (matching.looksBack) at(own.newest)
        matching.forgets(own.newest).foreach(at)
      }
    }
    touched.clear()
  }

  private def fired: Iterator[InternalRow] =
    if (!isStreaming) Iterator.empty
    else
      context.firing(due).flatMap { timer =>
        context.lease.useInOneThread(fire(timer)).iterator.flatMap { case (row, found) =>
          StateRows.point(storedLeft, row)
          if (found == null) unmatched(storedLeft) else Some(result(storedLeft, found))
        }
      }

  /** The waiting rows of a timer's key that are complete, each with its match or null. */
  private def fire(timer: Timer): Seq[(Array[Byte], Array[Byte])] =
    if (!context.timers.get.take(timer)) Nil
    else {
      val watermark = Micros.ofMillis(context.watermark.getOrElse(Long.MinValue))
      val complete = lefts.fold(Seq.empty[(Array[Byte], Array[Byte])]) { waiting =>
        val ready = waiting.firsts(timer.group, timer.key) { entry =>
          val at = matching.complete(waiting.time(entry.key))
          if (at > watermark)
            context.timers.get.set(EVENT_TIME, Micros.millis(at), timer.group, timer.key, true)
          at <= watermark
        }
        ready.map { entry =>
          waiting.remove(timer.group, entry.key)
          entry.value -> find(timer.group, timer.key, waiting.time(entry.key))
        }
      }
      forget(timer, watermark)
      complete
    }

  /** Removes the right rows of a key that no left row needs any more. */
  private def forget(timer: Timer, watermark: Long): Unit = {
    val before = matching.forgotten(watermark)
    // Where all distances count, the last row by the watermark is still looked back for.
    val newest =
      if (!matching.looksBack) null
      else
        rights.lastBefore(timer.group, timer.key, Micros.plus(matching.earliestLeft(watermark), 1))
    val superseded = if (newest == null) Long.MinValue else rights.time(newest.key)
    val kept = if (matching.tolerance.isEmpty) superseded else math.max(before, superseded)
    rights
      .firsts(timer.group, timer.key)(entry => rights.time(entry.key) < kept)
      .foreach(entry => rights.remove(timer.group, entry.key))
  }

  /** The right row of a key for a left row's time, as it is stored. Null if there is none. */
  private def find(group: Int, key: Array[Byte], time: Long): Array[Byte] = {
    val after = if (matching.exact) Micros.plus(time, 1) else time
    val back = if (matching.looksBack) near(rights.lastBefore(group, key, after), time) else null
    val ahead =
      if (!matching.looksAhead || back != null && rights.time(back.key) == time) null
      else
        near(rights.firstFrom(group, key, if (matching.exact) time else Micros.plus(time, 1)), time)
    val found =
      if (back == null) ahead
      else if (ahead == null) back
      else if (time - rights.time(back.key) <= rights.time(ahead.key) - time) back
      else ahead
    if (found == null || isDeleted(found.value)) null else found.value
  }

  private def near(entry: Entry, time: Long): Entry =
    if (entry == null || matching.isNear(time, rights.time(entry.key))) entry else null

  private def isDeleted(value: Array[Byte]): Boolean = right.deleted.exists { column =>
    StateRows.point(storedRight, value)
    !storedRight.isNullAt(column) && storedRight.getBoolean(column)
  }

  private def unmatched(row: InternalRow): Option[InternalRow] =
    Option.unless(join.inner)(made.unmatched(row))

  private def result(row: InternalRow, found: Array[Byte]): InternalRow = {
    StateRows.point(storedRight, found)
    made.matched(row, storedRight)
  }
}

private object AsOfPass {
  private final val Right = 1

  /** What a micro-batch has brought a key. */
  private final class Touched(val key: Array[Byte], val group: Int) {
    var first: Long = Long.MaxValue // of its left rows
    var newest: Long = Long.MinValue // of its right rows
  }
}
