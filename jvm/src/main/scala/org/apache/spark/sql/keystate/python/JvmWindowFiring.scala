package org.apache.spark.sql.keystate.python

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  GenericInternalRow, JoinedRow, SpecificInternalRow, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.types.TimestampType

import keystate.TimeDomain.{EVENT_TIME, PROCESSING_TIME}
import keystate.backend.{Entry, GroupedKey}
import org.apache.spark.sql.keystate.encoding.{OrderedKeyCodec, StateRows}
import org.apache.spark.sql.keystate.metrics.MetricValues
import org.apache.spark.sql.keystate.operator.OperatorTaskContext
import org.apache.spark.sql.keystate.spec.{JvmWindowFiringSpec, StateSpec}
import org.apache.spark.sql.keystate.state.{FamilyEntries, Timer, Timers}

/** Fires the windows of a task's keys that end in a micro-batch, once its rows are in the state. It
  * does what the operator of these windows does in a worker, which fires them in batch queries.
  *
  * A window is an entry of its key's sorted map: `(open, end, start)` in ms, and its accumulators. It
  * is open while its end is to come. There is no lateness, so a window that ends is gone; one that has
  * ended already was left for late rows before a restart. Of each key the first window has a timer, at
  * its end less 1 ms.
  *
  * @param isChanged
  *   whether this micro-batch has changed windows, so that there may be timers that it has set
  */
private[keystate] final class JvmWindowFiring private (
    task: OperatorTaskContext,
    timers: Timers,
    state: StateSpec,
    entries: FamilyEntries,
    made: UnsafeProjection,
    until: Long,
    isChanged: Boolean
) {
  import JvmWindowFiring.Window

  private val codec = OrderedKeyCodec(state.keyType.get, state.order)
  private val keyHolder = new GenericInternalRow(1)

  private val key = new UnsafeRow(task.columns.grouping.size)
  private val bounds = new SpecificInternalRow(Seq(TimestampType, TimestampType))
  private val held = new UnsafeRow(state.rowSchema.size)
  private val nothing = new GenericInternalRow(state.rowSchema.size)
  private val told = new JoinedRow(key, bounds)
  private val joined = new JoinedRow

  /** How many entries were removed so far. */
  var removed = 0L

  /** What is emitted of the windows. The same row each time. To be asked for when all changes of this
    * micro-batch are in the state.
    */
  def rows: Iterator[InternalRow] =
    Iterator.continually(task.due).takeWhile(due => task.lease.use(due.nonEmpty)).flatMap { due =>
      val timer = due.dequeue()
      val ended = task.lease.use(end(timer))
      key.pointTo(timer.key, timer.key.length)
      ended.map(emitted)
    }

  /** Takes out the windows of a timer's key that are over. Returns those of them that fire. */
  private def end(timer: Timer): Iterator[Window] =
    if (!timers.take(timer)) Iterator.empty
    else {
      val (over, next) = windowsOver(timer)
      over.foreach { window =>
        entries.remove(timer.group, window.entry.key)
        // It is not to come in the next micro-batch, for nothing.
        if (isChanged) set(timer, window.last, wanted = false)
      }
      removed += over.size
      if (next < Long.MaxValue) set(timer, next, wanted = true)
      over.iterator.filter(_.isOpen)
    }

  /** The windows of a timer's key that are over, and the time of the first one that is not. */
  private def windowsOver(timer: Timer): (mutable.ArrayBuffer[Window], Long) = {
    val over = new mutable.ArrayBuffer[Window](JvmWindowFiring.Few)
    var next = Long.MaxValue
    var mayEnd = true // they are sorted by their ends, but those that have ended come first
    val stored = entries.scan(timer.group, GroupedKey.prefix(timer.key), null)
    try
      while (mayEnd && stored.hasNext) {
        val window = read(stored.next())
        if (window.last <= until) over += window
        else {
          next = math.min(next, window.last)
          mayEnd = !window.isOpen
        }
      }
    finally stored.close()
    (over, next)
  }

  private def set(timer: Timer, time: Long, wanted: Boolean): Unit =
    timers.set(timer.domain, time, timer.group, timer.key, wanted)

  private def read(entry: Entry): Window = {
    codec.decode(entry.key, GroupedKey.userKeyOffset(entry.key), keyHolder, 0)
    val key = keyHolder.getStruct(0, JvmWindowFiring.KeyFields)
    Window(entry, isOpen = key.getLong(0) == 1, end = key.getLong(1), start = key.getLong(2))
  }

  private def emitted(window: Window): InternalRow = {
    bounds.setLong(0, window.start * 1000)
    bounds.setLong(1, window.end * 1000)
    made(joined(told, valueOf(window.entry)))
  }

  private def valueOf(entry: Entry): InternalRow =
    if (StateRows.isNull(entry.value)) nothing
    else {
      StateRows.point(held, entry.value)
      held
    }
}

private[keystate] object JvmWindowFiring {

  /** Open, end and start. */
  private final val KeyFields = 3

  /** How many windows of a key end at a time, mostly. */
  private final val Few = 2

  private final case class Window(entry: Entry, isOpen: Boolean, end: Long, start: Long) {

    /** Its last ms. */
    def last: Long = end - 1
  }

  /** None if a worker has to fire what is due. It does if timers by the other clock are due, of windows
    * that went by it before a restart.
    */
  def of(task: OperatorTaskContext, isChanged: Boolean): Option[JvmWindowFiring] =
    task.spec.windowFiring.filter(_ => task.batch.streaming).flatMap { windows =>
      // A worker that is not started does not tell its function's metric.
      task.addMetrics(MetricValues(Map(windows.dropped -> 0L)))
      firing(windows, task, isChanged)
    }

  private def firing(
      windows: JvmWindowFiringSpec,
      task: OperatorTaskContext,
      isChanged: Boolean
  ): Option[JvmWindowFiring] = {
    val (watermark, clock) = (task.watermark, task.batch.processingTime)
    val (domain, other) =
      if (windows.byEventTime) (EVENT_TIME, PROCESSING_TIME) else (PROCESSING_TIME, EVENT_TIME)
    val (own, others) = if (windows.byEventTime) (watermark, clock) else (clock, watermark)
    for {
      until <- own
      timers <- task.timers
      if !task.lease.use(timers.next(other)).exists(time => others.exists(time <= _))
      (state, entries) <- task.spec.states.zip(task.entries).find(_._1.name == windows.state)
      made <- WindowResults.of(windows, state, task.columns)
    } yield {
      task.due.lookOnlyFor(domain)
      new JvmWindowFiring(task, timers, state, entries, made, until, isChanged)
    }
  }
}
