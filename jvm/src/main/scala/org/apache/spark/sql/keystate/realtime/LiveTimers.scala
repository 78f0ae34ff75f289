package org.apache.spark.sql.keystate.realtime

import keystate.TimeDomain
import org.apache.spark.sql.keystate.state.{DueTimers, Timers}
import org.apache.spark.sql.keystate.store.BackendLease

/** The processing-time timers of a task in real-time mode, whose clock goes on.
  *
  * @param due
  *   takes the timers to fire; they may be deleted until then
  */
private[keystate] final class LiveTimers(timers: Timers, due: DueTimers, lease: BackendLease) {
  import LiveTimers._

  private var next = lease.use(timers.next(TimeDomain.PROCESSING_TIME).getOrElse(Never))

  /** When to look up timers, in ms since the epoch: there is none before. */
  def first: Long = math.min(next, timers.earliestSet)

  /** Whether the clock has passed that time. */
  def areDue: Boolean = {
    val time = first
    time != Never && time <= System.currentTimeMillis
  }

  /** Adds the timers that the clock has passed to those that are due. It looks into each key group,
    * so it costs more than a row.
    */
  def lookUp(): Unit = lease.use {
    val now = System.currentTimeMillis
    timers.earliestSet = Never
    due ++= timers.upTo(None, Some(now))
    next = timers.next(TimeDomain.PROCESSING_TIME, after = Some(now)).getOrElse(Never)
  }
}

private[keystate] object LiveTimers {

  /** The time of a timer that there is not. */
  final val Never = Long.MaxValue
}
