package keystate.windows

import scala.collection.mutable

import keystate.{
  Collector, KeyedProcessFunction, OutputTag, ProcessContext, RuntimeContext, TimeDomain
}
import org.apache.spark.sql.keystate.encoding.WindowNamespace
import org.apache.spark.sql.keystate.jvm.{FunctionAdapter, WindowedContext, WindowedFunction}

/** Windows, as a function of elements and timers.
  *
  * Timers belong to a key and a window. Each window has one of its own: at its end, and then, if it
  * is kept for late elements, when that is over by the rules at that time. So a window goes on under
  * other rules after a restart, from its next element or timer on.
  *
  * Rows come before the timers of their micro-batch: while they come the watermark is that of the
  * micro-batch before, by which they are late, and then it passes on.
  *
  * @param allowedLateness
  *   how long, in ms, a window is kept for late elements
  * @param contents
  *   what windows hold
  * @param fold
  *   makes one result of a window's elements; None if the function takes all of them
  * @param lateOutput
  *   where elements go that are too late for all of their windows
  */
private[keystate] final class WindowsFunction(
    assigner: WindowAssigner[Any, Window],
    trigger: Trigger[Any, Window],
    evictor: Option[Evictor[Any, Window]],
    allowedLateness: Long,
    contents: Contents,
    calls: WindowCalls,
    fold: Option[Fold],
    lateOutput: Option[OutputTag[Any]]
) extends KeyedProcessFunction[Any, Any, Any]
    with FunctionAdapter
    with WindowedFunction {
  private val byEventTime = assigner.isEventTime
  private val domain = if (byEventTime) TimeDomain.EVENT_TIME else TimeDomain.PROCESSING_TIME
  private val lateness = if (byEventTime) allowedLateness else 0

  /** Whether the window's own timer at its end is all that the trigger wants before that. */
  private val firesAtEnd = trigger.getClass ==
    (if (byEventTime) classOf[EventTimeTrigger] else classOf[ProcessingTimeTrigger])
  @transient private var at: CurrentWindow = _
  @transient private var merging: MergingWindowSet = _ // null where windows are not merged

  override def adapted: AnyRef = calls.user.getOrElse(this)

  override def windows: String = Seq(
    if (byEventTime) "by event time" else "by processing time",
    if (assigner.isInstanceOf[MergingWindowAssigner[_, _]]) "merged" else "not merged",
    contents.kind
  ).mkString(", ")

  override def open(runtime: RuntimeContext): Unit = {
    at = new CurrentWindow
    fold.foreach(_.open(runtime))
    calls.open(runtime, at, assigner.isInstanceOf[MergingWindowAssigner[_, _]])
    contents.open(runtime)
    at.triggerStates = new WindowStates(runtime, at, "trigger")
    trigger.open(at.triggerStates)
    merging = (assigner, contents) match {
      case (own: MergingWindowAssigner[Any, Window], merged: MergingContents) =>
        new MergingWindowSet(own, merged)
      case _ => null
    }
  }

  override def close(): Unit = {
    calls.close()
    fold.foreach(_.close())
  }

  override def processElement(element: Any, ctx: Context, out: Collector[Any]): Unit = {
    val watermark = context(ctx).lateWatermark
    at.enter(ctx, watermark)
    val time = timeOf(ctx)
    if (merging != null) removeLate()
    var late = true
    assigner.assignWindows(element, time, at).foreach { assigned =>
      val key = if (merging == null) assigned.key else merging.add(assigned.key)(onMerge)
      if (!isLate(key.window)) {
        late = false
        add(key, element, time, ctx, out)
      } else if (merging != null) contents.remove(key)
    }
    if (late && byEventTime && time + lateness <= watermark) lateOutput match {
      case Some(tag) => ctx.output(tag, element)
      case None => calls.dropped.inc()
    }
  }

  /** Removes windows that are there only because lateness was longer before a restart. */
  private def removeLate(): Unit = {
    var first = merging.first
    while (first.exists(key => isLate(key.window))) {
      remove(first.get)
      first = merging.first
    }
  }

  private def add(
      key: WindowKey,
      element: Any,
      time: Long,
      ctx: Context,
      out: Collector[Any]
  ): Unit = {
    val window = key.window
    // The trigger and other windows see the element too: what they see of it stays as it is.
    val own = if (contents.changesElements) context(ctx).elementAnew else element
    if (contents.add(key, own, at.row.timestamp())) setOwnTimer(key)
    at.window = key
    if (!firesAtEnd || isPast(window)) act(trigger.onElement(element, time, window, at), key, out)
  }

  /** Sets a window's own timer; there is none at the end of all time. */
  private def setOwnTimer(key: WindowKey): Unit = {
    val window = key.window
    setOwnTimer(key, if (isPast(window)) cleanupTime(window) else window.maxTimestamp)
  }

  private def setOwnTimer(key: WindowKey, time: Long): Unit =
    if (time != Long.MaxValue) at.setTimer(domain, time, key, wanted = true)

  override def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[Any]): Unit = {
    at.enter(ctx, ctx.timerService().currentWatermark())
    val namespace = context(ctx).namespace
    val key = WindowKey(WindowNamespace.endOf(namespace), WindowNamespace.startOf(namespace))
    at.window = key
    if (contents.contains(key)) fire(ctx.timeDomain(), timestamp, key, out)
  }

  private def fire(of: TimeDomain, time: Long, key: WindowKey, out: Collector[Any]): Unit = {
    val window = key.window
    val (isOwn, cleanup) = (of == domain, cleanupTime(window))
    if (isOwn && time > cleanup) remove(key) // lateness was longer before a restart
    else if (isOwn || !isLate(window)) {
      val result =
        if (of == TimeDomain.EVENT_TIME) trigger.onEventTime(time, window, at)
        else trigger.onProcessingTime(time, window, at)
      act(result, key, out)
      if (isOwn && time == cleanup) remove(key)
      else if (isOwn && time >= window.maxTimestamp) setOwnTimer(key, cleanup)
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
    case None => calls(elements.map(_.value), out)
    case Some(own) =>
      var accumulator: Any = null
      elements.foreach(element => accumulator = own.add(element.value, accumulator))
      if (accumulator != null) callWith(accumulator, out)
  }

  /** Has the function make results of the window's one result; null is no result. */
  private def callWith(accumulator: Any, out: Collector[Any]): Unit = {
    val result = fold.get.result(accumulator)
    if (result != null) calls(result :: Nil, out)
  }

  /** Has a window fire, whose errors can be its own. */
  private def attempt(key: WindowKey)(fire: => Unit): Unit =
    context(at.row).attempt(domain, key.end - 1)(fire)

  /** Removes a window with all that it has. */
  private def remove(key: WindowKey): Unit = {
    at.window = key
    contents.remove(key)
    trigger.clear(key.window, at)
    calls.clear()
  }

  @transient private lazy val onMerge: MergingWindowSet.OnMerge = (into, merged) => {
    at.window = into
    at.merged = merged
    setOwnTimer(into)
    trigger.onMerge(into.window, at)
    merged.filter(_ != into).foreach { each =>
      at.window = each
      trigger.clear(each.window, at)
      Seq(each.window.maxTimestamp, cleanupTime(each.window)).distinct
        .foreach(at.setTimer(domain, _, each, wanted = false))
    }
  }

  /** The row's event time, or if it needs none and has none, the time of the micro-batch. */
  private def timeOf(ctx: Context): Long = {
    val time = ctx.timestamp()
    if (time != null) time
    else if (!byEventTime) ctx.timerService().currentProcessingTime()
    else
      throw new IllegalArgumentException(
        "the row has no event time, so it is in no window: filter such rows out before window"
      )
  }

  private def context(ctx: ProcessContext[Any]) = ctx.asInstanceOf[WindowedContext]

  /** Whether the end of a window has passed, as elements see it. */
  private def isPast(window: Window): Boolean =
    byEventTime && window.maxTimestamp <= context(at.row).lateWatermark

  /** When a window is removed, in ms. */
  private def cleanupTime(window: Window): Long = {
    val time = window.maxTimestamp + lateness
    if (time >= window.maxTimestamp) time else Long.MaxValue
  }

  private def isLate(window: Window): Boolean =
    byEventTime && cleanupTime(window) <= context(at.row).lateWatermark
}
