package org.apache.spark.sql.keystate.python.messages

import org.json4s.JsonAST.{JBool, JField, JObject}

import org.apache.spark.sql.keystate.realtime.{LiveTimers, RowHandover, RowLatencies}
import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.DueTimers

/** Decides when a task in real-time mode sends its next message. A message is sent when the worker
  * has answered all others and there is something to send: rows, timers that the clock has passed,
  * the end, or just the end of a cache epoch, so that the backend gets the changes. If many rows
  * wait, one message is sent ahead.
  *
  * This reads the clock: a batch that is processed again sees other times.
  *
  * @param timers
  *   adds to `passed`
  * @param passed
  *   timers that the clock has passed, which are to be sent
  * @param cacheEpochMillis
  *   after how long the worker returns its changes
  */
private[keystate] final class LiveTurns(
    timers: Option[LiveTimers],
    val passed: DueTimers,
    cacheEpochMillis: Long
) {
  import LiveTurns._

  /** The source of rows. Set before the first message. */
  var input: RowHandover = _

  val latencies = new RowLatencies

  private var unanswered = 0
  private var fired = false // whether the last message had timers
  private var cacheEpochEnd = Never

  private def now = System.currentTimeMillis

  /** Whether to write a message now, or the end. */
  def isTurn: Boolean =
    if (unanswered == 0)
      input.hasNext || passed.nonEmpty || input.isOver || wakeTime <= now
    else unanswered == 1 && passed.isEmpty && input.waiting >= RowsAhead

  /** How long there is nothing to send unless a row comes; 0 is without limit. */
  def pauseMillis: Long = {
    val time = wakeTime
    if (unanswered > 0 || time == Never) 0 else math.max(1, time - now)
  }

  private def wakeTime = math.min(cacheEpochEnd, timers.fold(Never)(_.first))

  /** Whether to send timers now. Looks up those that the clock has passed. They are sent only while
    * no answer is missing, because an answer may delete them. If timers keep setting timers for the
    * past, rows and the end of the batch are still sent in between.
    */
  def timersFirst(): Boolean =
    if (unanswered > 0) false
    else {
      if (passed.isEmpty && !input.isOver && !(fired && input.hasNext))
        timers.filter(_.areDue).foreach(_.lookUp())
      fired = passed.nonEmpty
      fired
    }

  def isOver: Boolean = input.isOver

  /** Whether the cache epoch has lasted long enough. */
  def isOld: Boolean = cacheEpochEnd <= now

  /** Says that a cache epoch begins. */
  def opened(): Unit = cacheEpochEnd = Never

  /** Says that a message was made. */
  def sent(cacheEpochIsEmpty: Boolean): Unit = {
    unanswered += 1
    latencies.sent(System.nanoTime)
    if (cacheEpochEnd == Never && !cacheEpochIsEmpty) cacheEpochEnd = now + cacheEpochMillis
  }

  /** Says that an answer was received.
    *
    * @param until
    *   positive if it is not the last answer to a message
    */
  def answered(until: Int): Unit = if (until == 0 && unanswered > 0) {
    unanswered -= 1
    latencies.answered(System.nanoTime)
  }

  /** The part of the control that is the same in all messages. */
  def control(context: JObject): JObject = JObject(
    JField(Protocol.Control.RealTime, JBool(true)) ::
      context.obj.filterNot(_._1 == Protocol.Control.ProcessingTime)
  )

  /** The time that the function sees in a message. */
  def time: Long = now
}

private[keystate] object LiveTurns {
  private final val Never = LiveTimers.Never

  /** How many rows must wait before a message is sent ahead of the previous answer. */
  private final val RowsAhead = 1000

  /** The maximum duration of a cache epoch; it is shorter if a state's entries live less long. */
  final val CacheEpochMillis = 5000L
}
