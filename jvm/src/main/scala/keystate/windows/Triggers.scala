package keystate.windows

import java.time.Duration

import keystate.errors.KeystateErrors
import keystate.{KeyedStateStore, ReduceFunction, ReducingStateDescriptor}

/** Does nothing when a timer fires, unless a subclass says so. Can be used with merging. */
sealed abstract class QuietTrigger extends Trigger[Any, Window] {
  override def onProcessingTime(time: Long, window: Window, ctx: TriggerContext): TriggerResult =
    TriggerResult.CONTINUE
  override def onEventTime(time: Long, window: Window, ctx: TriggerContext): TriggerResult =
    TriggerResult.CONTINUE
  override def canMerge: Boolean = true
}

/** Fires when the watermark passes the end of the window, then for each late element. */
class EventTimeTrigger extends QuietTrigger {
  override def onElement(
      element: Any,
      timestamp: Long,
      window: Window,
      ctx: TriggerContext
  ): TriggerResult =
    if (window.maxTimestamp <= ctx.getCurrentWatermark) TriggerResult.FIRE
    else {
      ctx.registerEventTimeTimer(window.maxTimestamp)
      TriggerResult.CONTINUE
    }

  override def onEventTime(time: Long, window: Window, ctx: TriggerContext): TriggerResult =
    if (time == window.maxTimestamp) TriggerResult.FIRE else TriggerResult.CONTINUE

  override def onMerge(window: Window, ctx: OnMergeContext): Unit =
    // Where the watermark has passed the end, the element that merges fires it.
    if (window.maxTimestamp > ctx.getCurrentWatermark)
      ctx.registerEventTimeTimer(window.maxTimestamp)

  override def clear(window: Window, ctx: TriggerContext): Unit =
    ctx.deleteEventTimeTimer(window.maxTimestamp)
}

object EventTimeTrigger {

  /** The trigger. */
  def create(): EventTimeTrigger = new EventTimeTrigger
}

/** Fires when processing time passes the end of the window. */
class ProcessingTimeTrigger extends QuietTrigger {
  override def onElement(
      element: Any,
      timestamp: Long,
      window: Window,
      ctx: TriggerContext
  ): TriggerResult = {
    ctx.registerProcessingTimeTimer(window.maxTimestamp)
    TriggerResult.CONTINUE
  }

  override def onProcessingTime(time: Long, window: Window, ctx: TriggerContext): TriggerResult =
    if (time == window.maxTimestamp) TriggerResult.FIRE else TriggerResult.CONTINUE

  override def onMerge(window: Window, ctx: OnMergeContext): Unit =
    if (window.maxTimestamp > ctx.getCurrentProcessingTime)
      ctx.registerProcessingTimeTimer(window.maxTimestamp)

  override def clear(window: Window, ctx: TriggerContext): Unit =
    ctx.deleteProcessingTimeTimer(window.maxTimestamp)
}

object ProcessingTimeTrigger {

  /** The trigger. */
  def create(): ProcessingTimeTrigger = new ProcessingTimeTrigger
}

/** Never fires. */
class NeverTrigger extends QuietTrigger {
  override def onElement(
      element: Any,
      timestamp: Long,
      window: Window,
      ctx: TriggerContext
  ): TriggerResult = TriggerResult.CONTINUE
  override def onMerge(window: Window, ctx: OnMergeContext): Unit = ()
  override def clear(window: Window, ctx: TriggerContext): Unit = ()
}

/** Fires when the window has had this many elements since it last fired. */
class CountTrigger private (maxCount: Long) extends QuietTrigger {
  if (maxCount < 1)
    throw KeystateErrors.declaration(s"CountTrigger needs a count of at least 1, not $maxCount.")
  private val sum: ReduceFunction[Long] = _ + _
  private val counted = ReducingStateDescriptor("count", sum)

  override def open(states: KeyedStateStore): Unit =
    states.getReducingState(counted): Unit

  override def onElement(
      element: Any,
      timestamp: Long,
      window: Window,
      ctx: TriggerContext
  ): TriggerResult = {
    val count = ctx.getPartitionedState(counted)
    count.add(1)
    if (count.get() < maxCount) TriggerResult.CONTINUE
    else {
      count.clear()
      TriggerResult.FIRE
    }
  }

  override def onMerge(window: Window, ctx: OnMergeContext): Unit =
    ctx.mergePartitionedState(counted)

  override def clear(window: Window, ctx: TriggerContext): Unit =
    ctx.getPartitionedState(counted).clear()
}

object CountTrigger {

  /** A trigger that fires for every so many elements. */
  def of(maxCount: Long): CountTrigger = new CountTrigger(maxCount)
}

/** Fires again and again: at the multiples of an interval. */
sealed abstract class ContinuousTrigger private[windows] (every: Duration) extends QuietTrigger {
  private val interval = every.toMillis
  if (interval <= 0)
    throw KeystateErrors.declaration(
      s"${getClass.getSimpleName} needs an interval of more than 0, not $interval ms."
    )
  // Windows that are merged go on with the first time of theirs.
  private val earlier: ReduceFunction[java.lang.Long] = (a, b) => math.min(a, b)
  private val fireTime = ReducingStateDescriptor(s"$clock-fire-time", earlier)

  override def open(states: KeyedStateStore): Unit =
    states.getReducingState(fireTime): Unit

  /** The first multiple of the interval after `time`, but not after the window. */
  protected def nextAfter(time: Long, window: Window): Long =
    math.min(time - Math.floorMod(time, interval) + interval, window.maxTimestamp)

  /** When it fires next; null if that is not set. */
  protected def next(ctx: TriggerContext): java.lang.Long = ctx.getPartitionedState(fireTime).get()

  /** Sets when it fires next, if that is not set or has passed: another trigger may have had its
    * timer.
    */
  protected def begin(time: Long, now: Long, ctx: TriggerContext): Unit = {
    val known = next(ctx)
    if (known == null || known <= now) {
      clearNext(ctx)
      setNext(time, ctx)
    }
  }

  protected def setNext(time: Long, ctx: TriggerContext): Unit = {
    ctx.getPartitionedState(fireTime).add(time)
    register(time, ctx)
  }

  protected def clearNext(ctx: TriggerContext): Unit = ctx.getPartitionedState(fireTime).clear()

  /** What a timer for `time` does; the next one is for the first multiple after `since`. */
  protected def fire(
      time: Long,
      since: Long,
      window: Window,
      ctx: TriggerContext
  ): TriggerResult = {
    val atEnd = time == window.maxTimestamp
    if (!atEnd && (next(ctx) == null || next(ctx).longValue != time)) TriggerResult.CONTINUE
    else {
      clearNext(ctx)
      if (!atEnd) setNext(nextAfter(since, window), ctx)
      TriggerResult.FIRE
    }
  }

  protected def clock: String
  protected def register(time: Long, ctx: TriggerContext): Unit
  protected def delete(time: Long, ctx: TriggerContext): Unit

  override def onMerge(window: Window, ctx: OnMergeContext): Unit = {
    ctx.mergePartitionedState(fireTime)
    val time = next(ctx)
    if (time != null) register(time, ctx)
  }

  override def clear(window: Window, ctx: TriggerContext): Unit = if (next(ctx) != null) {
    delete(next(ctx), ctx)
    clearNext(ctx)
  }
}

/** Fires by event time at the multiples of an interval, and at the end of the window. */
class ContinuousEventTimeTrigger private (interval: Duration) extends ContinuousTrigger(interval) {
  override def onElement(
      element: Any,
      timestamp: Long,
      window: Window,
      ctx: TriggerContext
  ): TriggerResult =
    if (window.maxTimestamp <= ctx.getCurrentWatermark) TriggerResult.FIRE
    else {
      ctx.registerEventTimeTimer(window.maxTimestamp)
      begin(nextAfter(timestamp, window), ctx.getCurrentWatermark, ctx)
      TriggerResult.CONTINUE
    }

  override def onEventTime(time: Long, window: Window, ctx: TriggerContext): TriggerResult =
    fire(time, time, window, ctx)

  override def clear(window: Window, ctx: TriggerContext): Unit = {
    super.clear(window, ctx)
    ctx.deleteEventTimeTimer(window.maxTimestamp)
  }

  override protected def clock: String = "event-time"
  override protected def register(time: Long, ctx: TriggerContext): Unit =
    ctx.registerEventTimeTimer(time)
  override protected def delete(time: Long, ctx: TriggerContext): Unit =
    ctx.deleteEventTimeTimer(time)
}

object ContinuousEventTimeTrigger {

  /** A trigger that fires at the multiples of this interval. */
  def of(interval: Duration): ContinuousEventTimeTrigger = new ContinuousEventTimeTrigger(interval)
}

/** Fires by processing time at the multiples of an interval. */
class ContinuousProcessingTimeTrigger private (interval: Duration)
    extends ContinuousTrigger(interval) {
  override def onElement(
      element: Any,
      timestamp: Long,
      window: Window,
      ctx: TriggerContext
  ): TriggerResult = {
    val now = ctx.getCurrentProcessingTime
    begin(nextAfter(now, window), Long.MinValue, ctx)
    TriggerResult.CONTINUE
  }

  override def onProcessingTime(time: Long, window: Window, ctx: TriggerContext): TriggerResult =
    // From now on, not from the timer's time: micro-batches can be further apart.
    fire(time, math.max(time, ctx.getCurrentProcessingTime), window, ctx)

  override protected def clock: String = "processing-time"
  override protected def register(time: Long, ctx: TriggerContext): Unit =
    ctx.registerProcessingTimeTimer(time)
  override protected def delete(time: Long, ctx: TriggerContext): Unit =
    ctx.deleteProcessingTimeTimer(time)
}

object ContinuousProcessingTimeTrigger {

  /** A trigger that fires at the multiples of this interval. */
  def of(interval: Duration): ContinuousProcessingTimeTrigger =
    new ContinuousProcessingTimeTrigger(interval)
}

/** Empties the window whenever another trigger fires. */
final class PurgingTrigger[T, W <: Window] private (nested: Trigger[T, W]) extends Trigger[T, W] {
  override def open(states: KeyedStateStore): Unit = nested.open(states)

  override def onElement(
      element: T,
      timestamp: Long,
      window: W,
      ctx: TriggerContext
  ): TriggerResult = purging(nested.onElement(element, timestamp, window, ctx))

  override def onProcessingTime(time: Long, window: W, ctx: TriggerContext): TriggerResult =
    purging(nested.onProcessingTime(time, window, ctx))

  override def onEventTime(time: Long, window: W, ctx: TriggerContext): TriggerResult =
    purging(nested.onEventTime(time, window, ctx))

  override def canMerge: Boolean = nested.canMerge
  override def onMerge(window: W, ctx: OnMergeContext): Unit = nested.onMerge(window, ctx)
  override def clear(window: W, ctx: TriggerContext): Unit = nested.clear(window, ctx)

  private def purging(result: TriggerResult) =
    if (result.isFire) TriggerResult.FIRE_AND_PURGE else result
}

object PurgingTrigger {

  /** A trigger that fires as `nested` does, and empties the window. */
  def of[T, W <: Window](nested: Trigger[T, W]): PurgingTrigger[T, W] = new PurgingTrigger(nested)
}
