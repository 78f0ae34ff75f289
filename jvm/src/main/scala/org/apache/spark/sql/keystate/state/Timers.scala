package org.apache.spark.sql.keystate.state

import java.nio.ByteBuffer

import scala.collection.mutable

import keystate.backend.{Entry, KeyedStateBackend}

/** One timer of one key. */
private[keystate] final case class Timer(domain: Byte, time: Long, group: Int, key: Array[Byte])

/** The timers of a task's keys. They are entries of one ordered family, with the entry key
  * `[domain: 1 byte][time: int64 big-endian, sign flipped][key]` and a value of one byte, so that
  * those which are due are the first of their domain, and timers that are not due cost nothing.
  *
  * A timer fires in the batch whose clock passes it if it was set in an earlier one: which timers fire
  * is decided when the task begins. So the timers that a batch sets, in whatever order the worker's
  * answers come in, make no difference to it.
  */
private[keystate] final class Timers(
    family: Int,
    backend: KeyedStateBackend,
    maxParallelism: Int
) {
  import Timers._

  /** The timers up to these times, in order of time. */
  def due(eventTime: Option[Long], processingTime: Option[Long]): mutable.Queue[Timer] = {
    val found = Seq(EventTime -> eventTime, ProcessingTime -> processingTime).flatMap {
      case (domain, Some(until)) => (0 until maxParallelism).flatMap(dueIn(_, domain, until))
      case _ => Nil
    }
    // A stable sort: timers of one time fire in the order of their groups and keys.
    mutable.Queue.from(found.sortBy(_.time))
  }

  /** The time of the first timer of a domain. */
  def next(domain: Byte): Option[Long] =
    (0 until maxParallelism).flatMap { group =>
      val entries = backend.scan(family, group, Array(domain), Array((domain + 1).toByte))
      try Option.when(entries.hasNext)(timeOf(entries.next()))
      finally entries.close()
    }.minOption

  private def timeOf(entry: Entry): Long = ByteBuffer.wrap(entry.key).getLong(1) ^ Long.MinValue

  private def dueIn(group: Int, domain: Byte, until: Long): Seq[Timer] = {
    val end =
      if (until == Long.MaxValue) Array((domain + 1).toByte)
      else entryKey(domain, until + 1, Array.emptyByteArray)
    val entries = backend.scan(family, group, Array(domain), end)
    try
      entries.map { entry =>
        Timer(domain, timeOf(entry), group, entry.key.drop(HeaderLength))
      }.toVector
    finally entries.close()
  }

  /** Takes a timer out to fire it; false if it was deleted since. */
  def take(timer: Timer): Boolean = {
    val entry = entryKey(timer.domain, timer.time, timer.key)
    val present = backend.get(family, timer.group, entry) != null
    if (present) backend.remove(family, timer.group, entry)
    present
  }

  /** Sets a key's timer, or deletes it. */
  def set(domain: Byte, time: Long, group: Int, key: Array[Byte], wanted: Boolean): Unit = {
    val entry = entryKey(domain, time, key)
    if (wanted) backend.put(family, group, entry, Present)
    else backend.remove(family, group, entry)
  }
}

private[keystate] object Timers {
  val EventTime: Byte = 0
  val ProcessingTime: Byte = 1

  private val HeaderLength = 9
  private val Present = Array[Byte](0)

  private def entryKey(domain: Byte, time: Long, key: Array[Byte]): Array[Byte] =
    ByteBuffer
      .allocate(HeaderLength + key.length)
      .put(domain)
      .putLong(time ^ Long.MinValue)
      .put(key)
      .array()
}
