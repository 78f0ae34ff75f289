package keystate.windows

import java.util.{Map => JMap}

import keystate.{
  KeyOrder, KeyedStateStore, SortedMapState, SortedMapStateDescriptor, TimeDomain, TimerService
}

/** A timer of a window. Python names the fields the same. */
private[keystate] final case class WindowTimer(domain: Long, time: Long, end: Long, start: Long) {
  def window: WindowKey = WindowKey(end, start)
}

/** The timers of a key's windows, in order of time. A key has one timer for a time; which windows it
  * is for is told here.
  *
  * A timer is known by whom it was set for: a window's trigger, the operator, or both. The operator
  * has one for each window: at its end, and then, if it is kept for late elements, when that is over
  * by the rules at that time. So a restart with another trigger or another lateness finds each
  * window again.
  *
  * @param merging
  *   whether they are of windows that are merged. Those are in a state of their own: no other windows
  *   can go on with them.
  */
private[windows] final class WindowTimers(store: KeyedStateStore, merging: Boolean = false) {
  import WindowTimers._

  private val name = if (merging) "merging-window-timers" else "window-timers"
  private val timers: SortedMapState[WindowTimer, Int] =
    store.getSortedMapState(SortedMapStateDescriptor[WindowTimer, Int](name, KeyOrder.NATURAL))

  // 0 if it is not set
  private def whose(timer: WindowTimer): Int = timers.get(timer)

  /** Whether no timer is set. */
  def isEmpty: Boolean = timers.isEmpty()

  /** Sets a timer; harmless if it is set already. */
  def set(
      domain: TimeDomain,
      time: Long,
      window: WindowKey,
      own: Int,
      service: TimerService
  ): Unit = {
    val timer = WindowTimer(stored(domain), time, window.end, window.start)
    val known = whose(timer)
    if ((known & own) == 0) {
      timers.put(timer, known | own)
      if (known == 0) setOfKey(domain, time, service)
    }
  }

  /** Whether a timer is set, for whomever. */
  def contains(domain: TimeDomain, time: Long, window: WindowKey): Boolean =
    timers.contains(WindowTimer(stored(domain), time, window.end, window.start))

  /** Whether a window has a timer; most often one at this time. */
  def has(domain: TimeDomain, window: WindowKey, time: Long): Boolean =
    contains(domain, time, window) || timers.keys().exists { timer =>
      timer.domain == stored(domain) && timer.window == window
    }

  /** Deletes a timer; harmless if it is not set. */
  def delete(
      domain: TimeDomain,
      time: Long,
      window: WindowKey,
      own: Int,
      service: TimerService
  ): Unit = {
    val timer = WindowTimer(stored(domain), time, window.end, window.start)
    val known = whose(timer)
    if ((known & ~own) != 0) timers.put(timer, known & ~own)
    else if (known != 0) {
      timers.remove(timer)
      val next =
        timers.ceilingEntry(WindowTimer(stored(domain), time, Long.MinValue, Long.MinValue))
      if (next == null || next.getKey.domain != stored(domain) || next.getKey.time != time)
        deleteOfKey(domain, time, service)
    }
  }

  private def first(domain: TimeDomain, after: WindowTimer = null): JMap.Entry[WindowTimer, Int] = {
    val start =
      if (after != null) after.copy(start = after.start + 1)
      else WindowTimer(stored(domain), Long.MinValue, Long.MinValue, Long.MinValue)
    val found = timers.ceilingEntry(start)
    if (found == null || found.getKey.domain != stored(domain)) null else found
  }

  /** Has the key have a timer at the first time at which one is set. */
  def rearm(domain: TimeDomain, service: TimerService): Unit =
    Option(first(domain)).foreach(next => setOfKey(domain, next.getKey.time, service))

  /** Has the operator's timers by the other clock be by this one: they were set before a restart. */
  def adopt(domain: TimeDomain, service: TimerService): Unit = {
    val other =
      if (domain == TimeDomain.EVENT_TIME) TimeDomain.PROCESSING_TIME else TimeDomain.EVENT_TIME
    var next = first(other)
    while (next != null && next.getKey.domain == stored(other)) {
      val timer = next.getKey
      if ((next.getValue & ForOperator) != 0) {
        // That of the trigger of before goes too.
        delete(other, timer.time, timer.window, ForTrigger | ForOperator, service)
        set(domain, timer.time, timer.window, ForOperator, service)
      }
      next = timers.ceilingEntry(timer.copy(start = timer.start + 1))
    }
  }

  /** Takes out the first timer up to a time, with for whom it is; null if there is none.
    *
    * @param after
    *   only a timer after this one; null: any
    */
  def pop(
      domain: TimeDomain,
      until: Long,
      service: TimerService,
      after: WindowTimer = null
  ): (WindowTimer, Int) = {
    val first = this.first(domain, after)
    if (first == null || first.getKey.time > until) null
    else {
      timers.remove(first.getKey)
      // Others at this time come next: the key's timer is not needed any more.
      deleteOfKey(domain, first.getKey.time, service)
      (first.getKey, first.getValue)
    }
  }

  private def setOfKey(domain: TimeDomain, time: Long, service: TimerService): Unit =
    if (domain == TimeDomain.EVENT_TIME) service.registerEventTimeTimer(time)
    else service.registerProcessingTimeTimer(time)

  private def deleteOfKey(domain: TimeDomain, time: Long, service: TimerService): Unit =
    if (domain == TimeDomain.EVENT_TIME) service.deleteEventTimeTimer(time)
    else service.deleteProcessingTimeTimer(time)
}

private[windows] object WindowTimers {

  /** A timer's domain as it is stored. */
  private def stored(domain: TimeDomain): Long = domain match {
    case TimeDomain.EVENT_TIME => 0
    case TimeDomain.PROCESSING_TIME => 1
  }

  // For whom a timer is. They can be added.
  val ForTrigger = 1
  val ForOperator = 2
}
