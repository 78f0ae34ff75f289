package org.apache.spark.sql.keystate

import keystate.{Collector, KeyedProcessFunction, OnTimerContext, ProcessFunction, RichFunction}

/** A function that makes one of the user's into one of another kind. */
trait FunctionAdapter {

  /** The user's. */
  def adapted: AnyRef
}

/** How a subtask calls a function, of whichever kind it is. */
private[keystate] sealed abstract class FunctionCalls(val function: RichFunction) {

  /** Whether it can set timers. */
  def hasTimers: Boolean

  def processElement(value: Any, ctx: OnTimerContext[Any], out: Collector[Any]): Unit
  def onTimer(time: Long, ctx: OnTimerContext[Any], out: Collector[Any]): Unit

  /** What may have hooks for checkpoints. */
  val user: AnyRef = function match {
    case adapter: FunctionAdapter => adapter.adapted
    case own => own
  }

  protected def overrides(method: String, kind: Class[_]): Boolean =
    function.getClass.getMethods.exists(m => m.getName == method && m.getDeclaringClass != kind)
}

private[keystate] object FunctionCalls {
  def apply(function: RichFunction): FunctionCalls = function match {
    case keyed: KeyedProcessFunction[_, _, _] =>
      new Keyed(keyed.asInstanceOf[KeyedProcessFunction[Any, Any, Any]])
    case plain: ProcessFunction[_, _] => new Plain(plain.asInstanceOf[ProcessFunction[Any, Any]])
    case other => throw new IllegalArgumentException(s"unexpected function $other")
  }

  private final class Keyed(function: KeyedProcessFunction[Any, Any, Any])
      extends FunctionCalls(function) {
    override def hasTimers: Boolean =
      overrides("onTimer", classOf[KeyedProcessFunction[_, _, _]])
    override def processElement(
        value: Any,
        ctx: OnTimerContext[Any],
        out: Collector[Any]
    ): Unit = function.processElement(value, ctx, out)
    override def onTimer(time: Long, ctx: OnTimerContext[Any], out: Collector[Any]): Unit =
      function.onTimer(time, ctx, out)
  }

  private final class Plain(function: ProcessFunction[Any, Any]) extends FunctionCalls(function) {
    override def hasTimers: Boolean = false
    override def processElement(
        value: Any,
        ctx: OnTimerContext[Any],
        out: Collector[Any]
    ): Unit = function.processElement(value, ctx, out)
    override def onTimer(time: Long, ctx: OnTimerContext[Any], out: Collector[Any]): Unit =
      throw new IllegalStateException("timers need a key")
  }
}
