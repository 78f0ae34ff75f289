package keystate.windows

import keystate.{Collector, Counter, RichFunction, RuntimeContext}

/** Calls of the user's function of windows.
  *
  * @param user
  *   a [[ProcessWindowFunction]], a [[WindowFunction]], or None if the one result of a window is
  *   emitted as it is
  */
private[keystate] final class WindowCalls(val user: Option[AnyRef]) extends Serializable {
  @transient private var at: CurrentWindow = _
  @transient private var context: FunctionContext = _

  /** Counts rows that are too late. */
  @transient var dropped: Counter = _

  /** @param at
    *   has the window at hand
    * @param merging
    *   whether windows are merged
    */
  def open(runtime: RuntimeContext, at: CurrentWindow, merging: Boolean): Unit = {
    this.at = at
    dropped = runtime.getMetricGroup.counter("numLateRecordsDropped")
    val states = new FunctionStates(runtime, at, merging)
    context = new FunctionContext(at, states)
    user.foreach {
      case own: ProcessWindowFunction[_, _, _, _] =>
        own.setRuntimeContext(states)
        own.open(states: WindowRuntimeContext)
      case other => RichFunction.open(other, runtime)
    }
  }

  def close(): Unit = user.foreach(RichFunction.close)

  /** Has the function make results of the window's elements, or of its one result. */
  def apply(elements: Iterable[Any], out: Collector[Any]): Unit = user match {
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

  /** Tells the function that the window is removed. */
  def clear(): Unit = user.foreach {
    case own: ProcessWindowFunction[_, _, _, _] =>
      own.asInstanceOf[ProcessWindowFunction[Any, Any, Any, Window]].clear(context)
    case _ =>
  }
}
