package keystate.windows

import keystate.errors.KeystateErrors
import keystate.{
  KeyedStateStore, MetricGroup, OutputTag, ProcessContext, RuntimeContext, State, StateDescriptor,
  TimeDomain
}
import org.apache.spark.sql.keystate.jvm.WindowedContext

/** The key and the window at hand, as assigners, triggers and evictors see them. */
private[windows] final class CurrentWindow
    extends WindowCursor
    with OnMergeContext
    with EvictorContext
    with WindowAssignerContext {
  var row: ProcessContext[Any] = _ // of the element or timer
  private var watermark = Long.MinValue
  var merged: Seq[WindowKey] = Nil
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

  /** Sets a timer of a window, or deletes it. */
  def setTimer(domain: TimeDomain, time: Long, window: WindowKey, wanted: Boolean): Unit =
    row.asInstanceOf[WindowedContext].setTimer(domain, time, window.namespace, wanted)

  override def registerProcessingTimeTimer(time: Long): Unit =
    setTimer(TimeDomain.PROCESSING_TIME, time, window, wanted = true)
  override def registerEventTimeTimer(time: Long): Unit =
    setTimer(TimeDomain.EVENT_TIME, time, window, wanted = true)
  override def deleteProcessingTimeTimer(time: Long): Unit =
    setTimer(TimeDomain.PROCESSING_TIME, time, window, wanted = false)
  override def deleteEventTimeTimer(time: Long): Unit =
    setTimer(TimeDomain.EVENT_TIME, time, window, wanted = false)

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
