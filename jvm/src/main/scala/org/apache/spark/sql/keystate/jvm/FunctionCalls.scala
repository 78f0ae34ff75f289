package org.apache.spark.sql.keystate.jvm

import scala.annotation.tailrec

import keystate.{
  AsyncKeyedProcessFunction, BroadcastOnTimerContext, BroadcastProcessFunction, Collector,
  InitialStateFunction, KeyedBatch, KeyedBatchFunction, KeyedBroadcastContext,
  KeyedBroadcastProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction,
  RichFunction, RuntimeContext, TimeDomain
}
import org.apache.spark.sql.keystate.spec.Protocol

/** How a subtask calls a function, for each kind of function. */
private[keystate] sealed abstract class FunctionCalls(val function: RichFunction) {
  import FunctionCalls.{Element, Out}

  def processElement(value: Any, ctx: Element, out: Out): Unit

  /** Called for an element of the second input, or of the initial state. */
  def processSecond(value: Any, ctx: Element, out: Out): Unit =
    throw new IllegalStateException("the function has one input")

  /** Whether the function can set timers. */
  def hasTimers: Boolean = false

  def onTimer(time: Long, ctx: Element, out: Out): Unit =
    throw new IllegalStateException("the function has no timers")

  def processBroadcastElement(value: Any, ctx: KeyedBroadcastContext[Any], out: Out): Unit =
    throw new IllegalStateException("the function takes no broadcast elements")

  /** Whether the function takes many elements in one call. */
  def takesBatches: Boolean = false

  def processBatch(batch: KeyedBatch[Any, Any], ctx: Element, out: Out): Unit =
    throw new IllegalStateException("the function takes elements one by one")

  /** The user's own object, which may implement the checkpoint interfaces. */
  val user: AnyRef = FunctionCalls.adapted(function)

  protected def overrides(method: String, kind: Class[_], own: AnyRef = function): Boolean =
    own.getClass.getMethods.exists(m => m.getName == method && m.getDeclaringClass != kind)
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
    case own: AsyncAdapter => new Overlapping(own)
    case own: KeyedBatchFunction[_, _, _] =>
      new Batches(own.asInstanceOf[KeyedBatchFunction[Any, Any, Any]])
    case other => throw new IllegalArgumentException(s"unexpected function $other")
  }

  @tailrec
  private def adapted(function: AnyRef): AnyRef = function match {
    case adapter: FunctionAdapter if adapter.adapted ne adapter => adapted(adapter.adapted)
    case own => own
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

  private final class Batches(own: KeyedBatchFunction[Any, Any, Any]) extends FunctionCalls(own) {
    override def takesBatches: Boolean = true
    override def processBatch(batch: KeyedBatch[Any, Any], ctx: Element, out: Out): Unit =
      own.processBatch(batch, ctx, out)
    override def processElement(value: Any, ctx: Element, out: Out): Unit =
      throw new IllegalStateException("a function of batches takes no single element")
  }

  /** Its calls are made by [[org.apache.spark.sql.keystate.jvm.OverlappingCalls]]. */
  final class Overlapping(val own: AsyncAdapter) extends FunctionCalls(own) {
    override def hasTimers: Boolean =
      overrides("onTimer", classOf[AsyncKeyedProcessFunction[_, _, _]], own.function)
    override def processElement(value: Any, ctx: Element, out: Out): Unit =
      throw new IllegalStateException("the calls of an async function overlap")
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

/** An async function, with how its calls overlap. */
final class AsyncAdapter(
    val function: AsyncKeyedProcessFunction[Any, Any, Any],
    val settings: AsyncSettings
) extends RichFunction
    with FunctionAdapter {
  override def adapted: AnyRef = function
  override def open(context: RuntimeContext): Unit = {
    function.setRuntimeContext(context)
    function.open(context)
  }
  override def close(): Unit = function.close()
}

/** A function that adapts a user's function to another kind of function. */
trait FunctionAdapter {

  /** The user's function. */
  def adapted: AnyRef
}

/** A function of windows. It takes late rows like other rows, and decides itself which are too late;
  * its timers belong to a key and a window. The contexts of its elements are [[WindowedContext]]s.
  */
trait WindowedFunction {

  /** What the checkpoint records of its windows: they can't change while windows are open. */
  def windows: String
}

object WindowedFunction {

  /** The names of the states with what windows hold: accumulators, those of merged windows, and
    * elements.
    */
  val Contents: Seq[String] = Protocol.WindowContents
}

/** The context of an element or timer in such a function. */
trait WindowedContext {

  /** Rows at it or behind it are late: the watermark of the micro-batch before. `Long.MinValue` while
    * there is none.
    */
  def lateWatermark: Long

  /** The window of the timer that fires. */
  def namespace: Array[Byte]

  /** Sets a timer of the key and a window, or deletes it. */
  def setTimer(domain: TimeDomain, time: Long, namespace: Array[Byte], wanted: Boolean): Unit

  /** A new object of the current element: a function may change its element. */
  def elementAnew: Any

  /** Lets a window fire. With dead letters, a failed firing is undone and written as a dead letter
    * of a timer, and the rest goes on.
    */
  def attempt(domain: TimeDomain, time: Long)(fire: => Unit): Unit
}
