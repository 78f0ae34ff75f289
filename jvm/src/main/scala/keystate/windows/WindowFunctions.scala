package keystate.windows

import keystate.{Collector, KeyedStateStore, OutputTag, RichFunction, RuntimeContext}

/** What a function of windows gets in `open`: a runtime context with states of two kinds. */
trait WindowRuntimeContext extends RuntimeContext {

  /** Gives states of a key and a window: value, list, map, reducing and aggregating ones. Not where
    * windows are merged, as sessions are: `KEYSTATE_DECLARATION`.
    */
  def windowState: KeyedStateStore

  /** Gives states of a key, as the context itself does. */
  def globalState: KeyedStateStore
}

/** What [[ProcessWindowFunction.process]] is told. Valid only during the call. */
trait WindowContext[W <: Window] {

  /** The window. */
  def window: W

  /** The time of the micro-batch, or in real-time mode the present time, in ms since the epoch. */
  def currentProcessingTime: Long

  /** The watermark in ms since the epoch; `Long.MinValue` while there is none. */
  def currentWatermark: Long

  /** The states of the key and the window that `open` got. */
  def windowState: KeyedStateStore

  /** The states of the key that `open` got. */
  def globalState: KeyedStateStore

  /** Emits a result to a side output. */
  def output[X](tag: OutputTag[X], result: X): Unit
}

/** A function of a window's elements, or of its one result after `reduce` or `aggregate`. */
abstract class ProcessWindowFunction[IN, OUT, KEY, W <: Window] extends RichFunction {

  /** What `process` is told. */
  type Context = WindowContext[W]

  /** Called once for each instance, before its first window: gets states, also those of windows.
    * Override this, or one of the others.
    */
  def open(context: WindowRuntimeContext): Unit = open(context: RuntimeContext)

  /** Called when a window fires.
    *
    * @param elements
    *   the elements, as they came; or one result
    */
  def process(key: KEY, context: Context, elements: Iterable[IN], out: Collector[OUT]): Unit

  /** Called when a window is removed: deletes what it has in states of the window. */
  def clear(context: Context): Unit = ()
}

/** A function of a window's elements that needs no context. */
trait WindowFunction[IN, OUT, KEY, W <: Window] extends Serializable {

  /** Called when a window fires. */
  def apply(key: KEY, window: W, input: Iterable[IN], out: Collector[OUT]): Unit
}

/** A [[WindowFunction]] with a life cycle and state. */
abstract class RichWindowFunction[IN, OUT, KEY, W <: Window]
    extends RichFunction
    with WindowFunction[IN, OUT, KEY, W]
