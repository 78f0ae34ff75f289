package keystate.windows

import scala.collection.mutable

import keystate.{Collector, OutputTag, RuntimeContext, TimeDomain}

/** Windows of any assigner, trigger and evictor.
  *
  * @param allowedLateness
  *   how long, in ms, a window is kept for late elements
  * @param contents
  *   what windows hold
  */
private[keystate] final class AnyWindowsFunction(
    assigner: WindowAssigner[Any, Window],
    trigger: Trigger[Any, Window],
    evictor: Option[Evictor[Any, Window]],
    allowedLateness: Long,
    contents: Contents,
    function: Option[AnyRef],
    fold: Option[Fold],
    lateOutput: Option[OutputTag[Any]]
) extends WindowsFunction(assigner, function, fold, lateOutput) {
  private val lateness = if (byEventTime) allowedLateness else 0
  @transient private var timers: WindowTimers = _
  @transient private var merging: MergingWindowSet = _ // null where windows are not merged

  override def open(runtime: RuntimeContext): Unit = {
    super.open(runtime)
    contents.open(runtime)
    timers = new WindowTimers(runtime, assigner.isInstanceOf[MergingWindowAssigner[_, _]])
    at.timers = timers
    at.triggerStates = new WindowStates(runtime, at, "trigger")
    trigger.open(at.triggerStates)
    merging = (assigner, contents) match {
      case (own: MergingWindowAssigner[Any, Window], merged: MergingContents) =>
        new MergingWindowSet(own, merged)
      case _ => null
    }
  }

  override def processElement(element: Any, ctx: Context, out: Collector[Any]): Unit = {
    val watermark = lateWatermark(ctx)
    at.enter(ctx, watermark)
    val time = timeOf(ctx)
    if (merging != null) findTimers(Long.MaxValue)
    if (byEventTime && merging != null && time <= watermark + 1) removeLate(watermark)
    var late = true
    assigner.assignWindows(element, time, at).foreach { assigned =>
      val key = if (merging == null) assigned.key else merging.add(assigned.key, isPast)(onMerge)
      if (!isLate(key.window, watermark)) {
        late = false
        add(key, element, time, ctx, out)
      } else if (merging != null) contents.remove(key)
    }
    if (late && byEventTime && time + lateness <= watermark) emitLate(element, ctx)
  }

  private def add(
      key: WindowKey,
      element: Any,
      time: Long,
      ctx: Context,
      out: Collector[Any]
  ): Unit = {
    val (window, past) = (key.window, isPast(key))
    // The trigger and other windows see the element too.
    val own = if (contents.changesElements) anew(ctx) else element
    contents.add(key, own, at.row.timestamp(), past)
    at.window = key
    act(trigger.onElement(element, time, window, at), key, out)
    setTimer(if (past) cleanupTime(window) else window.maxTimestamp, key)
  }

  /** Sets the operator's own timer for a window; there is none at the end of all time. */
  private def setTimer(time: Long, key: WindowKey): Unit = if (time != Long.MaxValue)
    timers.set(domain, time, key, WindowTimers.ForOperator, at.row.timerService())

  override protected def fire(
      of: TimeDomain,
      timestamp: Long,
      clock: Long,
      out: Collector[Any]
  ): Unit = {
    pass(of, clock, out)
    // Of windows that had the other clock before a restart.
    if (of != domain) {
      findTimers(Long.MaxValue)
      pass(domain, clockOf(domain), out)
    }
  }

  /** Lets the timers of the key's windows fire up to a time, those too that these set; but one that is
    * set at or before the time of the timer that sets it waits for the next micro-batch.
    */
  private def pass(of: TimeDomain, until: Long, out: Collector[Any]): Unit = {
    if (of == domain) findTimers(if (until == Long.MaxValue) until else until + 1)
    val service = at.row.timerService()
    var due = timers.pop(of, until, service)
    while (due != null) {
      val (timer, whose) = due
      firing(of, timer.time)
      fireWindow(of, timer.time, timer.window, whose, out)
      due = timers.pop(of, until, service, after = timer)
    }
    // Windows by columns have a timer for the first one only.
    timers.rearm(of, service)
  }

  /** Sets the timers of windows that have none here and end by `end`, or have ended.
    *
    * Windows of a [[FixedWindowsFunction]], or of a worker by columns, have none. Of windows that
    * are merged all are found at once, when none has any: a key has one timer for a time, and it can
    * be deleted only if it is known whose it is.
    */
  private def findTimers(end: Long): Unit = {
    timers.adopt(domain, at.row.timerService())
    contents match {
      case folded: FoldedContents if merging == null || timers.isEmpty =>
        val last = if (merging == null) end else Long.MaxValue
        folded.ending(last).foreach(key => setTimer(key.end - 1, key))
        folded.closed.foreach(findTimerOfClosed)
      case _ =>
    }
  }

  private def findTimerOfClosed(key: WindowKey): Unit = {
    val cleanup = cleanupTime(key.window)
    if (merging == null && timers.has(domain, key, cleanup)) ()
    else if (!byEventTime || isLate(key.window, lateWatermark(at.row))) remove(key)
    else setTimer(cleanup, key)
  }

  private def fireWindow(
      of: TimeDomain,
      time: Long,
      key: WindowKey,
      whose: Int,
      out: Collector[Any]
  ): Unit = {
    val window = key.window
    at.window = key
    val (end, cleanup, isOwn) = (window.maxTimestamp, cleanupTime(window), of == domain)
    def isFor(who: Int) = (whose & who) != 0
    val isThere = contents.contains(key)
    // It was set before a restart: the windows had the other clock.
    if (isThere && !isOwn && isFor(WindowTimers.ForOperator))
      timers.set(domain, time, key, WindowTimers.ForOperator, at.row.timerService())
    if (isThere && isOwn && cleanup < time) {
      // Lateness was longer before a restart: the window is gone.
      if (isFor(WindowTimers.ForOperator)) remove(key)
    } else if (isThere && (isOwn || !isLate(window, lateWatermark(at.row)))) {
      // The operator's timer is from before a restart if it is at neither of these.
      if (isFor(WindowTimers.ForTrigger) || time == end || time == cleanup) {
        val result =
          if (of == TimeDomain.EVENT_TIME) trigger.onEventTime(time, window, at)
          else trigger.onProcessingTime(time, window, at)
        act(result, key, out)
      }
      if (isOwn && time == cleanup) remove(key)
      else if (isOwn && time >= end) {
        contents.ended(key)
        setTimer(cleanup, key)
      }
    }
  }

  /** Removes windows that are still there only because lateness was longer before. */
  private def removeLate(watermark: Long): Unit = {
    var key = merging.first
    while (key != null && isLate(key.window, watermark)) {
      remove(key)
      key = merging.first
    }
  }

  private def act(result: TriggerResult, key: WindowKey, out: Collector[Any]): Unit = {
    if (result.isFire) contents match {
      case folded: FoldedContents =>
        attempt(key) {
          val accumulator = folded.accumulator(key)
          if (accumulator != null) callWith(accumulator, out)
        }
      case listed: ListedContents =>
        val elements = listed.elements(key)
        if (elements.nonEmpty)
          evictor match {
            case None => attempt(key)(callWithAll(elements, out))
            case Some(own) => emitEvicting(own, elements, listed, key, out)
          }
    }
    if (result.isPurge) contents.clear(key)
  }

  /** Where the function fails, elements are taken out as if it had emitted nothing. */
  private def emitEvicting(
      evictor: Evictor[Any, Window],
      elements: mutable.ArrayBuffer[TimestampedValue[Any]],
      listed: ListedContents,
      key: WindowKey,
      out: Collector[Any]
  ): Unit = {
    val all = elements.toVector
    val window = key.window
    var kept = all
    attempt(key) {
      evictor.evictBefore(elements, elements.size, window, at)
      kept = elements.toVector
      try callWithAll(elements, out)
      finally {
        evictor.evictAfter(elements, elements.size, window, at)
        kept = elements.toVector
      }
    }
    val numbers = kept.iterator.map(_.number).toSet
    all.foreach(element => if (!numbers(element.number)) listed.evict(key, element))
  }

  private def callWithAll(
      elements: mutable.ArrayBuffer[TimestampedValue[Any]],
      out: Collector[Any]
  ): Unit = fold match {
    case None => call(elements.map(_.value), out)
    case Some(own) =>
      var accumulator: Any = null
      elements.foreach(element => accumulator = own.add(element.value, accumulator))
      if (accumulator != null) callWith(accumulator, out)
  }

  /** Removes a window with all that it has. */
  private def remove(key: WindowKey): Unit = {
    at.window = key
    contents.remove(key)
    trigger.clear(key.window, at)
    clearFunction()
  }

  @transient private lazy val onMerge: MergingWindowSet.OnMerge = (into, merged) => {
    at.window = into
    at.merged = merged
    trigger.onMerge(into.window, at)
    merged.foreach { each =>
      at.window = each
      trigger.clear(each.window, at)
      Seq(each.window.maxTimestamp, cleanupTime(each.window))
        .foreach(timers.delete(domain, _, each, WindowTimers.ForOperator, at.row.timerService()))
    }
  }

  /** Whether the end of a window has passed, as elements see it. */
  private def isPast(key: WindowKey): Boolean =
    byEventTime && key.window.maxTimestamp <= lateWatermark(at.row)

  /** When a window is removed, in ms. */
  private def cleanupTime(window: Window): Long = {
    val time = window.maxTimestamp + lateness
    if (time >= window.maxTimestamp) time else Long.MaxValue
  }

  private def isLate(window: Window, watermark: Long): Boolean =
    byEventTime && cleanupTime(window) <= watermark
}
