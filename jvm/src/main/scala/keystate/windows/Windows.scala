package keystate.windows

import org.apache.spark.sql.keystate.encoding.WindowNamespace

/** A group of rows of one key: a [[TimeWindow]] or the [[GlobalWindow]]. */
sealed abstract class Window extends Serializable {

  /** The last time that belongs to it, in ms since the epoch. */
  def maxTimestamp: Long

  /** The window as states have it. */
  private[windows] def key: WindowKey
}

/** The time from `start` to before `end`, in ms since the epoch. */
final case class TimeWindow(start: Long, end: Long) extends Window {
  def getStart: Long = start
  def getEnd: Long = end
  override def maxTimestamp: Long = end - 1

  /** Whether both overlap, or one begins where the other ends. */
  def intersects(other: TimeWindow): Boolean = start <= other.end && end >= other.start

  /** The least window that has both in it. */
  def cover(other: TimeWindow): TimeWindow =
    TimeWindow(math.min(start, other.start), math.max(end, other.end))

  override private[windows] def key: WindowKey = WindowKey(end, start)
}

object TimeWindow {

  /** The start of the window of this size that a time is in; windows begin at `offset`. */
  def getWindowStartWithOffset(timestamp: Long, offset: Long, windowSize: Long): Long =
    timestamp - Math.floorMod(timestamp - offset, windowSize)
}

/** The one window that has all rows of a key. */
final class GlobalWindow private () extends Window {
  override def maxTimestamp: Long = Long.MaxValue
  override private[windows] def key: WindowKey = WindowKey.Global
  override def equals(other: Any): Boolean = other.isInstanceOf[GlobalWindow]
  override def hashCode: Int = 0
  override def toString: String = "GlobalWindow()"
}

object GlobalWindow {
  private val only = new GlobalWindow

  /** The window. */
  def get: GlobalWindow = only
}

// What states have windows by. Python names the fields the same, so that a query can go on there.
// They are in order of their ends.

private[keystate] final case class WindowKey(end: Long, start: Long) {
  def window: Window =
    if (this == WindowKey.Global) GlobalWindow.get else TimeWindow(start, end)

  /** The window as timers have it. */
  def namespace: Array[Byte] = WindowNamespace(end, start)
}

private[keystate] object WindowKey {
  val Global: WindowKey = WindowKey(Long.MaxValue, 0)
}

/** One of several things that a window has. */
private[keystate] final case class NumberedKey(end: Long, start: Long, number: Long)

private[keystate] object NumberedKey {

  /** The first of a window. */
  def first(window: WindowKey): NumberedKey = NumberedKey(window.end, window.start, 0)

  /** After the last of a window. */
  def last(window: WindowKey): NumberedKey =
    NumberedKey(window.end, window.start, Long.MaxValue)
}
