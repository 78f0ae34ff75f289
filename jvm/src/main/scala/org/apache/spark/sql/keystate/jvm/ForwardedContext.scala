package org.apache.spark.sql.keystate.jvm

import keystate.errors.KeystateErrors
import keystate.{AsyncOnTimerContext, OnTimerContext, OutputTag, TimeDomain, TimerService}

/** A context that is valid only while its own call is current.
  *
  * @param all
  *   the context of the current call
  */
private[jvm] abstract class ForwardedContext(all: OnTimerContext[Any], isAtHand: () => Boolean)
    extends AsyncOnTimerContext[Any]
    with TimerService {
  private def checked: OnTimerContext[Any] = {
    if (!isAtHand()) throw KeystateErrors.notInCall("The context")
    all
  }
  private def timers: TimerService = checked.timerService()

  override def getCurrentKey: Any = {
    if (!isAtHand()) throw KeystateErrors.keyOutsideOfCall()
    all.getCurrentKey
  }
  override def timestamp(): java.lang.Long = checked.timestamp()
  override def timeDomain(): TimeDomain = checked.timeDomain()
  override def output[T](tag: OutputTag[T], result: T): Unit = checked.output(tag, result)
  override def timerService(): TimerService = this

  override def currentProcessingTime(): Long = timers.currentProcessingTime()
  override def currentWatermark(): Long = timers.currentWatermark()
  override def registerEventTimeTimer(time: Long): Unit = timers.registerEventTimeTimer(time)
  override def registerProcessingTimeTimer(time: Long): Unit =
    timers.registerProcessingTimeTimer(time)
  override def deleteEventTimeTimer(time: Long): Unit = timers.deleteEventTimeTimer(time)
  override def deleteProcessingTimeTimer(time: Long): Unit = timers.deleteProcessingTimeTimer(time)
}
