package org.apache.spark.sql.keystate.expression

/** How rows are grouped into windows. All times are in ms.
  *
  * @param byEventTime
  *   whether windows go by event time, or by the clock
  * @param lateness
  *   how long a window is kept after its end, for late rows
  */
private[keystate] final case class Windows(
    bounds: WindowBounds,
    byEventTime: Boolean,
    lateness: Long
) {

  /** What can't change while there are windows: their clock, and whether they are merged. */
  def kind: String = {
    val what = bounds match {
      case _: FixedBounds => "windows"
      case _: SessionBounds => "sessions"
    }
    s"$what by ${if (byEventTime) "event time" else "processing time"}"
  }
}

/** Where windows begin and end. */
private[keystate] sealed trait WindowBounds

/** Windows of one size, of which one begins at every multiple of `slide`, plus `offset`. */
private[keystate] final case class FixedBounds(size: Long, slide: Long, offset: Long)
    extends WindowBounds {

  /** The size of the panes: each window consists of whole ones. */
  val pane: Long = BigInt(size).gcd(BigInt(slide)).toLong

  /** The start of the last window that begins at or before a time. Earlier ones that have the time
    * begin a slide before, and so on, after `time - size`.
    */
  def lastStart(time: Long): Long = FixedBounds.startOf(time, slide, offset)
}

private[keystate] object FixedBounds {

  /** The greatest multiple of `size`, plus `offset`, that is not after a time. */
  def startOf(time: Long, size: Long, offset: Long): Long =
    time - Math.floorMod(time - offset, size)
}

/** Windows that end when there were no rows for the gap. Those that meet are merged. */
private[keystate] final case class SessionBounds(gap: Long) extends WindowBounds

/** Arithmetic that generated code calls. */
private[keystate] object PaneTime {

  /** The start of a time's pane.
    *
    * @param micros
    *   the time, in us
    * @param size
    *   of a pane, in ms
    * @param offset
    *   of panes, in ms
    * @return
    *   in us
    */
  def start(micros: Long, size: Long, offset: Long): Long =
    FixedBounds.startOf(Math.floorDiv(micros, 1000L), size, offset) * 1000

  /** A time in us, without its part of a ms. */
  def millis(micros: Long): Long = Math.floorDiv(micros, 1000L) * 1000
}
