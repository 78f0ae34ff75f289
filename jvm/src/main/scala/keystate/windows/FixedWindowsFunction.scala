package keystate.windows

import scala.collection.mutable

import keystate.{Collector, OutputTag, RuntimeContext, TimeDomain, TimerService}

/** Tumbling and sliding windows with their default trigger, no evictor and no late firings.
  *
  * A window's timer is at its end, so which windows are due is told by their ends: without a
  * trigger's states and timers. By columns, in a worker, only a key's first window has one. Those that an [[AnyWindowsFunction]] left before a restart have a timer
  * there too; and one when their lateness would be over, if their end has passed. These are gone by
  * the new rules, and do not fire again.
  */
private[keystate] final class FixedWindowsFunction(
    assigner: FixedWindows,
    function: Option[AnyRef],
    contents: FoldedContents,
    lateOutput: Option[OutputTag[Any]]
) extends WindowsFunction(
      assigner.asInstanceOf[WindowAssigner[Any, Window]],
      function,
      Some(contents.fold),
      lateOutput
    ) {
  private val (size, slide, offset) = (assigner.size, assigner.slide, assigner.offset)

  @transient private var left: Option[WindowTimers] = None

  override def open(runtime: RuntimeContext): Unit = {
    super.open(runtime)
    contents.open(runtime)
    // Also what an AnyWindowsFunction has emptied can have states.
    left = if (hasWindowStates) Some(new WindowTimers(runtime)) else None
  }

  override def processElement(element: Any, ctx: Context, out: Collector[Any]): Unit = {
    val service = ctx.timerService()
    val time = if (byEventTime) timeOf(ctx) else service.currentProcessingTime()
    val closed = if (byEventTime) lateWatermark(ctx) + 1 else Long.MinValue
    var end = TimeWindow.getWindowStartWithOffset(time, offset, slide) + size
    var late = true
    while (end > time && end > closed) {
      // The windows before this one may have changed the element.
      val own = if (late) element else anew(ctx)
      late = false
      if (contents.addTo(ContentsKey(1, end, end - size), own)) setTimer(end, service)
      end -= slide
    }
    if (late && time < closed) emitLate(element, ctx)
  }

  override protected def fire(
      of: TimeDomain,
      timestamp: Long,
      clock: Long,
      out: Collector[Any]
  ): Unit = {
    val service = at.row.timerService()
    // Timers by the other clock are of windows that had it before a restart.
    val until = if (of == domain) clock else clockOf(domain)
    val gone = mutable.LinkedHashSet.empty[WindowKey]
    var first = contents.first
    while (first != null && first.getKey.end - 1 <= until) {
      val key = first.getKey
      at.window = key.window
      val accumulator = first.getValue
      if (key.open == 1) attempt(key.window)(callWith(accumulator, out))
      contents.removeFirst(key)
      gone += at.window
      // Its timer is not needed any more.
      if (of != domain || key.end - 1 != timestamp)
        if (byEventTime) service.deleteEventTimeTimer(key.end - 1)
        else service.deleteProcessingTimeTimer(key.end - 1)
      first = contents.first
    }
    // Windows of a worker by columns have a timer for the first one only.
    if (first != null) setTimer(first.getKey.end, service)
    left.foreach { timers =>
      Iterator
        .continually(timers.pop(domain, until, service))
        .takeWhile(_ != null)
        .foreach { case (timer, _) => gone += timer.window }
    }
    gone.foreach { window =>
      at.window = window
      clearFunction()
    }
  }

  private def setTimer(end: Long, service: TimerService): Unit =
    if (byEventTime) service.registerEventTimeTimer(end - 1)
    else service.registerProcessingTimeTimer(end - 1)
}
