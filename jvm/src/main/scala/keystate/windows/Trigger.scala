package keystate.windows

import keystate.{KeyedStateStore, State, StateDescriptor}

/** What happens to a window. A window without elements emits nothing. */
sealed abstract class TriggerResult(val isFire: Boolean, val isPurge: Boolean)

object TriggerResult {

  /** Nothing. */
  case object CONTINUE extends TriggerResult(false, false)

  /** Its result is emitted, and it is emptied. */
  case object FIRE_AND_PURGE extends TriggerResult(true, true)

  /** Its result is emitted; it keeps what it has. */
  case object FIRE extends TriggerResult(true, false)

  /** It is emptied. */
  case object PURGE extends TriggerResult(false, true)
}

/** What a trigger is told, and its timers and states, which belong to the key and the window. */
trait TriggerContext {

  /** The time of the micro-batch in ms since the epoch. */
  def getCurrentProcessingTime: Long

  /** The watermark in ms since the epoch; `Long.MinValue` while there is none. */
  def getCurrentWatermark: Long

  /** Asks for `onProcessingTime` when the clock has reached `time`. */
  def registerProcessingTimeTimer(time: Long): Unit

  /** Asks for `onEventTime` when the watermark has reached `time`. */
  def registerEventTimeTimer(time: Long): Unit

  /** Deletes a timer; harmless when it is not set. */
  def deleteProcessingTimeTimer(time: Long): Unit

  /** Deletes a timer; harmless when it is not set. */
  def deleteEventTimeTimer(time: Long): Unit

  /** A state of the key and the window, which `open` got by this descriptor. */
  def getPartitionedState[S <: State](descriptor: StateDescriptor[S]): S
}

/** What [[Trigger.onMerge]] is told. */
trait OnMergeContext extends TriggerContext {

  /** Merges what the windows have in this state into what the new window has. It must be a list,
    * reducing or aggregating state, else `KEYSTATE_DECLARATION`.
    */
  def mergePartitionedState(descriptor: StateDescriptor[_ <: State]): Unit
}

/** Says when a window's result is emitted.
  *
  * An object serves all keys and windows, so what it remembers is in states: it asks for them in
  * `open`, and they stand for the key and the window at hand.
  */
abstract class Trigger[-T, -W <: Window] extends Serializable {

  /** Gets the trigger's states: value, list, map, reducing and aggregating ones. */
  def open(states: KeyedStateStore): Unit = ()

  /** Called for each element, when it is in the window.
    *
    * @param timestamp
    *   its event time in ms, or if it has none, the time of the micro-batch
    */
  def onElement(element: T, timestamp: Long, window: W, ctx: TriggerContext): TriggerResult

  /** Called when a timer by processing time fires. */
  def onProcessingTime(time: Long, window: W, ctx: TriggerContext): TriggerResult

  /** Called for a timer by event time, at the window's end, and when it is removed. */
  def onEventTime(time: Long, window: W, ctx: TriggerContext): TriggerResult

  /** Whether it can be used where windows are merged. */
  def canMerge: Boolean = false

  /** Called when windows have been merged into this one: sets its timers, merges states. */
  def onMerge(window: W, ctx: OnMergeContext): Unit =
    throw new UnsupportedOperationException(s"${getClass.getName} does not define onMerge")

  /** Called when a window is removed: deletes its timers and states. */
  def clear(window: W, ctx: TriggerContext): Unit
}
