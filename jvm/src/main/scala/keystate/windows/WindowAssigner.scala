package keystate.windows

/** What an assigner is told. */
trait WindowAssignerContext {

  /** The time of the micro-batch in ms since the epoch. */
  def getCurrentProcessingTime: Long
}

/** Says which windows an element is in. It keeps nothing: states and clocks are not its own. */
abstract class WindowAssigner[-T, W <: Window] extends Serializable {

  /** The windows of an element.
    *
    * @param timestamp
    *   its event time in ms since the epoch, or if it has none, the time of the micro-batch
    */
  def assignWindows(element: T, timestamp: Long, context: WindowAssignerContext): Seq[W]

  /** The trigger of these windows if no other is given. */
  def getDefaultTrigger: Trigger[T, W]

  /** Whether windows go by event time. */
  def isEventTime: Boolean
}

/** Says which windows of a key are merged, as sessions are. */
abstract class MergingWindowAssigner[-T, W <: Window] extends WindowAssigner[T, W] {

  /** Calls `merged(windows, result)` for windows that are merged into one. */
  def mergeWindows(windows: Iterable[W], merged: (Iterable[W], W) => Unit): Unit
}

/** One window for all elements of a key. It needs a trigger: by itself it never fires. */
final class GlobalWindows private () extends WindowAssigner[Any, GlobalWindow] {
  override def assignWindows(
      element: Any,
      timestamp: Long,
      context: WindowAssignerContext
  ): Seq[GlobalWindow] = GlobalWindow.get :: Nil
  override def getDefaultTrigger: Trigger[Any, GlobalWindow] = new NeverTrigger
  override def isEventTime: Boolean = false
}

object GlobalWindows {

  /** The assigner. */
  def create(): GlobalWindows = new GlobalWindows
}
