package org.apache.spark.sql.keystate.state

import java.nio.ByteBuffer

import keystate.TimeDomain
import keystate.TimeDomain.{EVENT_TIME, PROCESSING_TIME}
import keystate.backend.StateEntries

/** One timer of one key. */
private[keystate] final case class Timer(
    domain: TimeDomain,
    time: Long,
    group: Int,
    key: Array[Byte]
)

/** The timers of a task's keys. They are entries of one ordered family. The entry key is
  * `[domain: 1 byte][time: int64 big-endian, sign flipped][key]`, the value is one byte. So due
  * timers come first in their domain, and timers that are not due cost nothing.
  *
  * [[DueTimers]] says which timers fire in a micro-batch. In real-time mode processing-time timers
  * also fire when the clock passes them within a batch.
  *
  * @param due
  *   receives the timers that are set
  */
private[keystate] final class Timers(
    family: Int,
    backend: StateEntries,
    maxParallelism: Int,
    due: DueTimers = DueTimers.none
) {
  import Timers._

  /** The timers up to and including these times, ordered by time. None: none of that domain. */
  def upTo(eventTime: Option[Long], processingTime: Option[Long]): Seq[Timer] = {
    val found = Seq(EVENT_TIME -> eventTime, PROCESSING_TIME -> processingTime).flatMap {
      case (domain, Some(until)) => (0 until maxParallelism).flatMap(dueIn(_, domain, until))
      case _ => Nil
    }
    // The sort is stable: timers of the same time fire in the order of their groups and keys.
    found.sortBy(_.time)
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
      val start =
        after.fold(first(domain))(time => entryKey(domain, time + 1, Array.emptyByteArray))
      val entries = backend.scan(family, group, start, end(domain))
      try Option.when(entries.hasNext)(timeOf(entries.next().key))
      finally entries.close()
    }.minOption

  private def dueIn(group: Int, domain: TimeDomain, until: Long): Seq[Timer] = {
    val last =
      if (until == Long.MaxValue) end(domain)
      else entryKey(domain, until + 1, Array.emptyByteArray)
    val entries = backend.scan(family, group, first(domain), last)
    try
      entries.map { entry =>
        Timer(domain, timeOf(entry.key), group, keyOf(entry.key))
      }.toVector
    finally entries.close()
  }

  /** Takes a timer out to fire it. False if it was deleted since. */
  def take(timer: Timer): Boolean = {
    val entry = entryKey(timer.domain, timer.time, timer.key)
    val present = backend.get(family, timer.group, entry) != null
    if (present) backend.remove(family, timer.group, entry)
    present
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
      waits: Boolean = false
  ): Unit = {
    val entry = entryKey(domain, time, key)
    if (wanted) {
      backend.put(family, group, entry, Present)
      due.wasSet(domain, time, group, key, waits)
      if (domain == PROCESSING_TIME) earliestSet = math.min(earliestSet, time)
    } else backend.remove(family, group, entry)
  }
}

private[keystate] object Timers {

  /** The number of a domain, in entry keys and in messages. */
  def number(domain: TimeDomain): Byte = domain match {
    case EVENT_TIME => 0
    case PROCESSING_TIME => 1
  }

  /** The domain of a number. */
  def domain(number: Byte): TimeDomain = number match {
    case 0 => EVENT_TIME
    case 1 => PROCESSING_TIME
    case other => throw new IllegalArgumentException(s"there is no timer domain $other")
  }

  /** The bounds of the entry keys of a domain's timers. */
  private def first(domain: TimeDomain): Array[Byte] = Array(number(domain))
  private def end(domain: TimeDomain): Array[Byte] = Array((number(domain) + 1).toByte)

  private val HeaderLength = 9

  /** The stored value of a timer; the rest is in its entry key. */
  val Present: Array[Byte] = Array[Byte](0)

  /** The key in the entry key of a timer. */
  def keyOf(entry: Array[Byte]): Array[Byte] = entry.drop(HeaderLength)

  /** The time in the entry key of a timer. */
  def timeOf(entry: Array[Byte]): Long = ByteBuffer.wrap(entry).getLong(1) ^ Long.MinValue

  /** The entry key of a timer. */
  def entryKey(domain: TimeDomain, time: Long, key: Array[Byte]): Array[Byte] =
    ByteBuffer
      .allocate(HeaderLength + key.length)
      .put(number(domain))
      .putLong(time ^ Long.MinValue)
      .put(key)
      .array()
}
