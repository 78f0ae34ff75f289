package org.apache.spark.sql.keystate.state

import java.nio.ByteBuffer
import java.util.{Arrays, Comparator, TreeSet}

import scala.collection.mutable

import keystate.TimeDomain
import keystate.TimeDomain.{EVENT_TIME, PROCESSING_TIME}

/** The timers that fire in a micro-batch, in order of time: after its rows, all timers that its
  * clock has passed, including those that its rows and timers set. The stored ones are looked up on
  * first use, so not before the rows have been processed. From then on newly set timers are added.
  *
  * A timer that a timer sets at or before its own time waits for the next micro-batch. So no
  * micro-batch goes on for ever.
  *
  * @param lookUp
  *   finds the stored timers of these times, in order; see [[Timers.upTo]]
  */
private[keystate] final class DueTimers(
    eventTime: Option[Long],
    processingTime: Option[Long],
    lookUp: (Option[Long], Option[Long]) => Seq[Timer]
) {
  private val stored = mutable.Queue.empty[Timer]
  private val set = new TreeSet[Timer](DueTimers.Order)
  private val waiting = new TreeSet[Timer](DueTimers.Order)
  private var lookedUp = false

  private def look(): Unit = if (!lookedUp) {
    lookedUp = true
    stored ++= lookUp(eventTime, processingTime).filterNot(waiting.contains)
  }

  def isEmpty: Boolean = {
    look()
    // The timers that were deleted, and set again so that they wait.
    if (!waiting.isEmpty) {
      while (stored.nonEmpty && waiting.contains(stored.head)) stored.dequeue(): Unit
      while (!set.isEmpty && waiting.contains(set.first)) set.pollFirst(): Unit
    }
    stored.isEmpty && set.isEmpty
  }

  def nonEmpty: Boolean = !isEmpty

  /** Whether any of the timers that were stored at first use are left. */
  def hasStored: Boolean = {
    look()
    stored.nonEmpty
  }

  /** Takes out the first one of these. */
  def dequeueStored(): Timer = stored.dequeue()

  /** The number of timers. A timer that was stored and has been set again may count twice. */
  def size: Int = {
    look()
    stored.size + set.size
  }

  /** Takes out the first one, if it is not empty. It may have been deleted since it was set. */
  def dequeue(): Timer =
    if (set.isEmpty) stored.dequeue()
    else {
      val next = set.first
      val compared = if (stored.isEmpty) 1 else DueTimers.Order.compare(stored.head, next)
      if (compared >= 0) set.pollFirst(): Unit
      if (compared <= 0) stored.dequeue() else next
    }

  /** Removes and returns the first timer of each key: they may fire before any of them has set
    * others.
    */
  def dequeueFirsts(): Seq[Timer] = {
    val ofKeys = mutable.HashSet.empty[ByteBuffer]
    val (firsts, others) = Iterator
      .continually(this)
      .takeWhile(_.nonEmpty)
      .map(_.dequeue())
      .toVector
      .partition(timer => ofKeys.add(ByteBuffer.wrap(timer.key)))
    stored ++= others
    firsts
  }

  /** Adds timers that another clock has passed, in order. */
  def ++=(timers: Iterable[Timer]): Unit = stored ++= timers

  /** Says that a timer was set.
    *
    * @param waits
    *   whether a timer set it, at or before its own time
    */
  def wasSet(
      domain: TimeDomain,
      time: Long,
      group: Int,
      key: Array[Byte],
      waits: Boolean,
      namespace: Array[Byte] = Timer.NoNamespace
  ): Unit =
    if ((lookedUp || waits) && isDue(domain, time)) {
      val timer = Timer(domain, time, group, key.clone, namespace)
      if (waits) waiting.add(timer): Unit else set.add(timer): Unit
    }

  private def isDue(domain: TimeDomain, time: Long) = domain match {
    case EVENT_TIME => eventTime.exists(time <= _)
    case PROCESSING_TIME => processingTime.exists(time <= _)
  }

  /** For a batch query, whose one micro-batch has no next one: when all timers have fired, the
    * waiting ones fire.
    */
  def nextRound(): Unit = {
    waiting.clear()
    lookedUp = false
  }
}

private[keystate] object DueTimers {

  /** By time, and then in a fixed order. */
  private val Order: Comparator[Timer] = (a, b) => {
    val byTime = java.lang.Long.compare(a.time, b.time)
    if (byTime != 0) byTime
    else if (a.domain != b.domain) TimerKeys.number(a.domain) - TimerKeys.number(b.domain)
    else if (a.group != b.group) Integer.compare(a.group, b.group)
    else if (a.namespace.length > 0 && a.key.length != b.key.length)
      Integer.compare(a.key.length, b.key.length) // as in TimerKeys.Namespaced
    else {
      val byKey = Arrays.compareUnsigned(a.key, b.key)
      if (byKey != 0) byKey else Arrays.compareUnsigned(a.namespace, b.namespace)
    }
  }

  /** Has no timers that fire. */
  def none: DueTimers = new DueTimers(None, None, (_, _) => Nil)

  /** Whether a new timer waits for the next micro-batch, because of the timer that set it. */
  def waits(domain: TimeDomain, time: Long, by: Timer): Boolean = by != null && {
    time < by.time || time == by.time && TimerKeys.number(domain) <= TimerKeys.number(by.domain)
  }
}
