package org.apache.spark.sql.keystate.jvm

import keystate.{
  BroadcastOnTimerContext,
  BroadcastProcessFunction,
  Collector,
  InitialStateFunction,
  KeyedBroadcastContext,
  KeyedBroadcastProcessFunction,
  KeyedCoProcessFunction,
  KeyedProcessFunction,
  ProcessFunction,
  RichFunction
}

/** How a subtask calls a function, whatever kind of function it is. */
private[keystate] sealed abstract class FunctionCalls(val function: RichFunction) {
  import FunctionCalls.{Element, Out}

  def processElement(value: Any, ctx: Element, out: Out): Unit

  /** For an element of the second of two inputs, or of the initial state. */
  def processSecond(value: Any, ctx: Element, out: Out): Unit =
    throw new IllegalStateException("the function has one input")

  /** Whether the function can set timers. */
  def hasTimers: Boolean = false

  def onTimer(time: Long, ctx: Element, out: Out): Unit =
    throw new IllegalStateException("the function has no timers")

  def processBroadcastElement(value: Any, ctx: KeyedBroadcastContext[Any], out: Out): Unit =
    throw new IllegalStateException("the function takes no broadcast elements")

  /** The user's own object, which may implement the hooks for checkpoints. */
  val user: AnyRef = function match {
    case adapter: FunctionAdapter => adapter.adapted
    case own => own
  }

  protected def overrides(method: String, kind: Class[_]): Boolean =
    function.getClass.getMethods.exists(m => m.getName == method && m.getDeclaringClass != kind)
}

private[keystate] object FunctionCalls {
  type Element = BroadcastOnTimerContext[Any]
  type Out = Collector[Any]

  def apply(function: RichFunction): FunctionCalls = function match {
    case own: KeyedProcessFunction[_, _, _] =>
      new Keyed(own.asInstanceOf[KeyedProcessFunction[Any, Any, Any]])
    case own: KeyedCoProcessFunction[_, _, _, _] =>
      new KeyedTwo(own.asInstanceOf[KeyedCoProcessFunction[Any, Any, Any, Any]])
    case own: ProcessFunction[_, _] => new Plain(own.asInstanceOf[ProcessFunction[Any, Any]])
    case own: KeyedBroadcastProcessFunction[_, _, _, _] =>
      new KeyedBroadcast(own.asInstanceOf[KeyedBroadcastProcessFunction[Any, Any, Any, Any]])
    case own: BroadcastProcessFunction[_, _, _] =>
      new PlainBroadcast(own.asInstanceOf[BroadcastProcessFunction[Any, Any, Any]])
    case other => throw new IllegalArgumentException(s"unexpected function $other")
  }

  private final class Keyed(own: KeyedProcessFunction[Any, Any, Any]) extends FunctionCalls(own) {
    override def hasTimers: Boolean =
      overrides("onTimer", classOf[KeyedProcessFunction[_, _, _]])
    override def processElement(value: Any, ctx: Element, out: Out): Unit =
      own.processElement(value, ctx, out)
    override def processSecond(value: Any, ctx: Element, out: Out): Unit = own match {
      case initialized: InitialStateFunction[Any @unchecked, Any @unchecked] =>
        initialized.processInitialState(value, ctx)
      case _ => super.processSecond(value, ctx, out)
    }
    override def onTimer(time: Long, ctx: Element, out: Out): Unit = own.onTimer(time, ctx, out)
  }

  private final class KeyedTwo(own: KeyedCoProcessFunction[Any, Any, Any, Any])
      extends FunctionCalls(own) {
    override def hasTimers: Boolean =
      overrides("onTimer", classOf[KeyedCoProcessFunction[_, _, _, _]])
    override def processElement(value: Any, ctx: Element, out: Out): Unit =
      own.processElement1(value, ctx, out)
    override def processSecond(value: Any, ctx: Element, out: Out): Unit =
      own.processElement2(value, ctx, out)
    override def onTimer(time: Long, ctx: Element, out: Out): Unit = own.onTimer(time, ctx, out)
  }

  private final class Plain(own: ProcessFunction[Any, Any]) extends FunctionCalls(own) {
    override def processElement(value: Any, ctx: Element, out: Out): Unit =
      own.processElement(value, ctx, out)
  }

  private final class KeyedBroadcast(own: KeyedBroadcastProcessFunction[Any, Any, Any, Any])
      extends FunctionCalls(own) {
    override def hasTimers: Boolean =
      overrides("onTimer", classOf[KeyedBroadcastProcessFunction[_, _, _, _]])
    override def processElement(value: Any, ctx: Element, out: Out): Unit =
      own.processElement(value, ctx, out)
    override def onTimer(time: Long, ctx: Element, out: Out): Unit = own.onTimer(time, ctx, out)
    override def processBroadcastElement(
        value: Any,
        ctx: KeyedBroadcastContext[Any],
        out: Out
    ): Unit = own.processBroadcastElement(value, ctx, out)
  }

  private final class PlainBroadcast(own: BroadcastProcessFunction[Any, Any, Any])
      extends FunctionCalls(own) {
    override def processElement(value: Any, ctx: Element, out: Out): Unit =
      own.processElement(value, ctx, out)
    override def processBroadcastElement(
        value: Any,
        ctx: KeyedBroadcastContext[Any],
        out: Out
    ): Unit = own.processBroadcastElement(value, ctx, out)
  }
}

/** A function that adapts a user's function to another kind of function. */
trait FunctionAdapter {

  /** The user's function. */
  def adapted: AnyRef
}

/** A function that takes late rows as it takes others, and tells itself which are too late. The
  * contexts of its elements are [[LateRowsContext]]s.
  */
trait LateRowsFunction

/** What such a function is told of an element. */
trait LateRowsContext {

  /** Rows at it or behind it are late: the watermark of the micro-batch before. `Long.MinValue` while
    * there is none.
    */
  def lateWatermark: Long

  /** The element at hand as an object of its own: a function may change what it is given. */
  def elementAnew: Any
}
