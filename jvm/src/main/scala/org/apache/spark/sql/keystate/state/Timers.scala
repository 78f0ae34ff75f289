package org.apache.spark.sql.keystate.state

import keystate.TimeDomain
import keystate.TimeDomain.{EVENT_TIME, PROCESSING_TIME}
import keystate.backend.StateEntries

/** One timer of one key.
  *
  * @param namespace
  *   what of the key it belongs to: a window. Empty for functions without windows
  */
private[keystate] final case class Timer(
    domain: TimeDomain,
    time: Long,
    group: Int,
    key: Array[Byte],
    namespace: Array[Byte] = Timer.NoNamespace
)

private[keystate] object Timer {
  val NoNamespace: Array[Byte] = Array.emptyByteArray
}

/** The timers of a task's keys. They are entries of one ordered family, see [[TimerKeys]]. Timers
  * that are not due cost nothing.
  *
  * [[DueTimers]] says which timers fire in a micro-batch. In real-time mode processing-time timers
  * also fire when the clock passes them within a batch.
  *
  * @param due
  *   receives the timers that are set
  */
private[keystate] final class Timers(
    family: Int,
    keys: TimerKeys,
    backend: StateEntries,
    maxParallelism: Int,
    due: DueTimers = DueTimers.none
) {
  import TimerKeys.{Present, domainOf, end, first, timeOf}

  /** Whether each belongs to a window, its namespace. */
  def windows: Boolean = keys eq TimerKeys.Namespaced

  /** The timers up to and including these times, ordered by time. None: none of that domain. */
  def upTo(eventTime: Option[Long], processingTime: Option[Long]): Seq[Timer] = {
    val found = Seq(EVENT_TIME -> eventTime, PROCESSING_TIME -> processingTime).flatMap {
      case (domain, Some(until)) => (0 until maxParallelism).flatMap(dueIn(_, domain, until))
      case _ => Nil
    }
    // The sort is stable: timers of the same time fire in the order of their groups and keys.
    found.sorted(Timers.ByTime)
  }

  /** The earliest time of the processing-time timers that were set since this was made. */
  var earliestSet: Long = Long.MaxValue

  /** The time of the first timer of a domain. None if it has no timers.
    *
    * @param after
    *   only timers after this time
    */
  def next(domain: TimeDomain, after: Option[Long] = None): Option[Long] =
    (0 until maxParallelism).flatMap { group =>
      val start = after.fold(first(domain))(TimerKeys.after(domain, _))
      val entries = backend.scan(family, group, start, end(domain))
      try Option.when(entries.hasNext)(timeOf(entries.next().key))
      finally entries.close()
    }.minOption

  private def dueIn(group: Int, domain: TimeDomain, until: Long): Seq[Timer] = {
    val entries = backend.scan(family, group, first(domain), TimerKeys.after(domain, until))
    try entries.map(entry => timer(group, entry.key)).toVector
    finally entries.close()
  }

  private def timer(group: Int, entry: Array[Byte]) =
    Timer(domainOf(entry), timeOf(entry), group, keys.keyOf(entry), keys.namespaceOf(entry))

  /** Takes a timer out to fire it. False if it was deleted since. */
  def take(timer: Timer): Boolean = {
    val entry = keys.entry(timer.domain, timer.time, timer.key, timer.namespace)
    backend.take(family, timer.group, entry)
  }

  /** Sets a key's timer, or deletes it.
    *
    * @param waits
    *   whether it waits for the next micro-batch; see [[DueTimers.waits]]
    */
  def set(
      domain: TimeDomain,
      time: Long,
      group: Int,
      key: Array[Byte],
      wanted: Boolean,
      waits: Boolean = false,
      namespace: Array[Byte] = Timer.NoNamespace
  ): Unit = {
    val entry = keys.entry(domain, time, key, namespace)
    if (wanted) {
      backend.put(family, group, entry, Present)
      due.wasSet(domain, time, group, key, waits, namespace)
      if (domain == PROCESSING_TIME) earliestSet = math.min(earliestSet, time)
    } else backend.remove(family, group, entry)
  }
}

private object Timers {
  private val ByTime: Ordering[Timer] = (a, b) => java.lang.Long.compare(a.time, b.time)
}
