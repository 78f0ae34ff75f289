package keystate.windows

import keystate.{KeyOrder, KeyedStateStore, SortedMapState, SortedMapStateDescriptor, TimerService}

/** A timer of a window. Python names the fields the same. */
private[keystate] final case class WindowTimer(domain: Long, time: Long, end: Long, start: Long) {
  def window: WindowKey = WindowKey(end, start)
}

/** The timers of a key's windows, in order of time. A key has one timer for a time; which windows it
  * is for is told here.
  */
private[windows] final class WindowTimers(store: KeyedStateStore) {
  import WindowTimers._

  private val timers: SortedMapState[WindowTimer, Boolean] =
    store.getSortedMapState(
      SortedMapStateDescriptor[WindowTimer, Boolean]("window-timers", KeyOrder.NATURAL)
    )

  /** Sets a timer; one that is set already stays as it is. */
  def set(domain: Long, time: Long, window: WindowKey, service: TimerService): Unit = {
    val timer = WindowTimer(domain, time, window.end, window.start)
    if (!timers.contains(timer)) {
      timers.put(timer, true)
      if (domain == EventTime) service.registerEventTimeTimer(time)
      else service.registerProcessingTimeTimer(time)
    }
  }

  /** Whether a timer is set. */
  def contains(domain: Long, time: Long, window: WindowKey): Boolean =
    timers.contains(WindowTimer(domain, time, window.end, window.start))

  /** Deletes a timer; harmless if it is not set. */
  def delete(domain: Long, time: Long, window: WindowKey, service: TimerService): Unit = {
    val timer = WindowTimer(domain, time, window.end, window.start)
    if (timers.contains(timer)) {
      timers.remove(timer)
      val next = timers.ceilingEntry(WindowTimer(domain, time, Long.MinValue, Long.MinValue))
      if (next == null || next.getKey.domain != domain || next.getKey.time != time)
        deleteOfKey(domain, time, service)
    }
  }

  /** Takes out the first timer up to a time; null if there is none. */
  def pop(domain: Long, until: Long, service: TimerService): WindowTimer = {
    val first =
      timers.ceilingEntry(WindowTimer(domain, Long.MinValue, Long.MinValue, Long.MinValue))
    if (first == null || first.getKey.domain != domain || first.getKey.time > until) null
    else {
      timers.remove(first.getKey)
      // Others at this time come next: the key's timer is not needed any more.
      deleteOfKey(domain, first.getKey.time, service)
      first.getKey
    }
  }

  private def deleteOfKey(domain: Long, time: Long, service: TimerService): Unit =
    if (domain == EventTime) service.deleteEventTimeTimer(time)
    else service.deleteProcessingTimeTimer(time)
}

private[windows] object WindowTimers {
  val EventTime = 0L
  val ProcessingTime = 1L
}
