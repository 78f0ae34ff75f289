package keystate.windows

import keystate.errors.KeystateErrors
import keystate.{
  KeyedStateStore, MetricGroup, OutputTag, ProcessContext, RuntimeContext, State, StateDescriptor,
  TimeDomain
}

/** The key and the window at hand, as assigners, triggers and evictors see them. */
private[windows] final class CurrentWindow
    extends WindowCursor
    with OnMergeContext
    with EvictorContext
    with WindowAssignerContext {
  var row: ProcessContext[Any] = _ // of the element or timer
  private var watermark = Long.MinValue
  var merged: Seq[WindowKey] = Nil
  var timers: WindowTimers = _
  var triggerStates: WindowStates = _

  /** @param watermark
    *   what the element or timer sees
    */
  def enter(row: ProcessContext[Any], watermark: Long): Unit = {
    this.row = row
    this.watermark = watermark
  }

  override def getCurrentProcessingTime: Long = row.timerService().currentProcessingTime()
  override def getCurrentWatermark: Long = watermark

  override def registerProcessingTimeTimer(time: Long): Unit =
    timers.set(
      TimeDomain.PROCESSING_TIME,
      time,
      window,
      WindowTimers.ForTrigger,
      row.timerService()
    )
  override def registerEventTimeTimer(time: Long): Unit =
    timers.set(TimeDomain.EVENT_TIME, time, window, WindowTimers.ForTrigger, row.timerService())
  override def deleteProcessingTimeTimer(time: Long): Unit =
    timers.delete(
      TimeDomain.PROCESSING_TIME,
      time,
      window,
      WindowTimers.ForTrigger,
      row.timerService()
    )
  override def deleteEventTimeTimer(time: Long): Unit =
    timers.delete(TimeDomain.EVENT_TIME, time, window, WindowTimers.ForTrigger, row.timerService())

  override private[windows] def hasTimer(domain: TimeDomain, time: Long): Boolean =
    timers.contains(domain, time, window)

  override private[windows] def hadTimer(domain: TimeDomain, time: Long): Boolean =
    merged.exists(timers.contains(domain, time, _))

  override def getPartitionedState[S <: State](descriptor: StateDescriptor[S]): S =
    triggerStates.provide(descriptor)
  override def mergePartitionedState(descriptor: StateDescriptor[_ <: State]): Unit =
    triggerStates.merge(descriptor, merged)
}

/** What a [[ProcessWindowFunction]] is told. */
private[windows] final class FunctionContext(at: CurrentWindow, states: FunctionStates)
    extends WindowContext[Window] {
  override def window: Window = at.window.window
  override def currentProcessingTime: Long = at.getCurrentProcessingTime
  override def currentWatermark: Long = at.getCurrentWatermark
  override def windowState: KeyedStateStore = states.windowState
  override def globalState: KeyedStateStore = states.globalState
  override def output[X](tag: OutputTag[X], result: X): Unit = at.row.output(tag, result)
}

/** What a function of windows gets in `open`. States are had again by their descriptors. */
private[windows] final class FunctionStates(
    runtime: RuntimeContext,
    cursor: WindowCursor,
    merging: Boolean
) extends WindowRuntimeContext {
  private val states = new NamedStates[State]
  private val ofWindow = new WindowStates(runtime, cursor, "window-state")

  override def windowState: KeyedStateStore =
    if (!merging) ofWindow
    else
      throw KeystateErrors.declaration(
        "Where windows are merged, a window has no state of its own: use globalState."
      )

  override def globalState: KeyedStateStore = this

  /** Whether the function has asked for states of windows. */
  def hasWindowStates: Boolean = !ofWindow.isEmpty

  override protected[keystate] def provide[S <: State](descriptor: StateDescriptor[S]): S =
    states.get(descriptor)(runtime.provide(descriptor)).asInstanceOf[S]

  override def getTaskName: String = runtime.getTaskName
  override def getIndexOfThisSubtask: Int = runtime.getIndexOfThisSubtask
  override def getNumberOfParallelSubtasks: Int = runtime.getNumberOfParallelSubtasks
  override def getMaxNumberOfParallelSubtasks: Int = runtime.getMaxNumberOfParallelSubtasks
  override def getAttemptNumber: Int = runtime.getAttemptNumber
  override def getKeyGroup(key: Any): Int = runtime.getKeyGroup(key)
  override def getMetricGroup: MetricGroup = runtime.getMetricGroup
}
