package keystate.windows

import keystate.{
  Collector, Counter, KeyedProcessFunction, OutputTag, ProcessContext, RichFunction, RuntimeContext,
  TimeDomain
}
import org.apache.spark.sql.keystate.jvm.{FunctionAdapter, LateRowsContext, LateRowsFunction}

/** What windows of all kinds have in common, as functions of elements and timers.
  *
  * Rows come before the timers of their micro-batch: while they come the watermark is that of the
  * micro-batch before, by which they are late, and then it passes on.
  *
  * @param function
  *   the user's: a [[ProcessWindowFunction]], a [[WindowFunction]], or None if the one result is
  *   emitted as it is
  * @param fold
  *   makes one result of a window's elements; None if the function takes all of them
  * @param lateOutput
  *   where elements go that are too late for all of their windows
  */
private[keystate] abstract class WindowsFunction private[windows] (
    assigner: WindowAssigner[Any, Window],
    function: Option[AnyRef],
    fold: Option[Fold],
    lateOutput: Option[OutputTag[Any]]
) extends KeyedProcessFunction[Any, Any, Any]
    with FunctionAdapter
    with LateRowsFunction {
  protected val byEventTime: Boolean = assigner.isEventTime
  protected val domain: TimeDomain =
    if (byEventTime) TimeDomain.EVENT_TIME else TimeDomain.PROCESSING_TIME
  @transient protected var at: CurrentWindow = _
  @transient private var context: FunctionContext = _
  @transient private var dropped: Counter = _

  /** Whether the function has asked for states of windows. */
  @transient protected var hasWindowStates: Boolean = _

  override def adapted: AnyRef = function.getOrElse(this)

  override def open(runtime: RuntimeContext): Unit = {
    at = new CurrentWindow
    dropped = runtime.getMetricGroup.counter("numLateRecordsDropped")
    val states =
      new FunctionStates(runtime, at, assigner.isInstanceOf[MergingWindowAssigner[_, _]])
    context = new FunctionContext(at, states)
    fold.foreach(_.open(runtime))
    function.foreach {
      case own: ProcessWindowFunction[_, _, _, _] =>
        own.setRuntimeContext(states)
        own.open(states: WindowRuntimeContext)
      case other => RichFunction.open(other, runtime)
    }
    hasWindowStates = states.hasWindowStates
  }

  override def close(): Unit = {
    function.foreach(RichFunction.close)
    fold.foreach(_.close())
  }

  override def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[Any]): Unit = {
    val of = ctx.timeDomain()
    at.enter(ctx, ctx.timerService().currentWatermark())
    fire(of, timestamp, math.max(timestamp, clockOf(of)), out)
  }

  /** The time of the micro-batch by a clock. */
  protected def clockOf(domain: TimeDomain): Long = {
    val service = at.row.timerService()
    if (domain == TimeDomain.EVENT_TIME) service.currentWatermark()
    else service.currentProcessingTime()
  }

  /** Says that of the timers for which the key has the one at hand this one fires. */
  protected def firing(of: TimeDomain, time: Long): Unit = late(at.row).firing(of, time)

  /** Called for the timer at `timestamp`; all that are due until `clock` may fire. */
  protected def fire(of: TimeDomain, timestamp: Long, clock: Long, out: Collector[Any]): Unit

  /** The row's event time, or if it needs none and has none, the time of the micro-batch. */
  protected def timeOf(ctx: Context): Long = {
    val time = ctx.timestamp()
    if (time != null) time
    else if (!byEventTime) ctx.timerService().currentProcessingTime()
    else
      throw new IllegalArgumentException(
        "the row has no event time, so it is in no window: filter such rows out before window"
      )
  }

  /** By which rows are late. */
  protected def lateWatermark(ctx: ProcessContext[Any]): Long = late(ctx).lateWatermark

  /** Emits an element that is too late. */
  protected def emitLate(element: Any, ctx: Context): Unit = lateOutput match {
    case Some(tag) => ctx.output(tag, element)
    case None => dropped.inc()
  }

  /** The element for a function that may change it: what others see of it stays as it is. */
  protected def anew(ctx: Context): Any = late(ctx).elementAnew

  /** Has a window fire, whose errors can be its own. */
  protected def attempt(window: WindowKey)(fire: => Unit): Unit =
    late(at.row).attempt(domain, window.end - 1)(fire)

  private def late(ctx: ProcessContext[Any]) = ctx.asInstanceOf[LateRowsContext]

  /** Has the function make results of the window's elements, or of its one result. */
  protected def call(elements: Iterable[Any], out: Collector[Any]): Unit = function match {
    case None => elements.foreach(out.collect)
    case Some(own: ProcessWindowFunction[Any @unchecked, Any @unchecked, Any @unchecked, _]) =>
      own
        .asInstanceOf[ProcessWindowFunction[Any, Any, Any, Window]]
        .process(at.row.getCurrentKey, context, elements, out)
    case Some(own) =>
      own
        .asInstanceOf[WindowFunction[Any, Any, Any, Window]]
        .apply(at.row.getCurrentKey, at.window.window, elements, out)
  }

  /** Has the function make results of the window's one result; null is no result. */
  protected def callWith(accumulator: Any, out: Collector[Any]): Unit = {
    val result = fold.get.result(accumulator)
    if (result != null) call(result :: Nil, out)
  }

  /** Tells the function that a window is removed. */
  protected def clearFunction(): Unit = function.foreach {
    case own: ProcessWindowFunction[_, _, _, _] =>
      own.asInstanceOf[ProcessWindowFunction[Any, Any, Any, Window]].clear(context)
    case _ =>
  }
}
