package keystate.windows

import java.time.Duration

import keystate.errors.KeystateErrors

/** Windows of one size, of which one begins at every multiple of `slide`, from `offset` on. */
sealed abstract class FixedWindows private[windows] (
    sized: Duration,
    slides: Duration,
    begins: Duration
) extends WindowAssigner[Any, TimeWindow] {
  private[keystate] val (size, slide, offset) = (sized.toMillis, slides.toMillis, begins.toMillis)
  if (size <= 0 || slide <= 0 || math.abs(offset) >= slide)
    throw KeystateErrors.declaration(
      s"${getClass.getSimpleName}: size and slide must be more than 0, and the offset less than " +
        s"the slide, not $size, $slide and $offset ms."
    )

  override def assignWindows(
      element: Any,
      timestamp: Long,
      context: WindowAssignerContext
  ): Seq[TimeWindow] = {
    val time = if (isEventTime) timestamp else context.getCurrentProcessingTime
    var start = TimeWindow.getWindowStartWithOffset(time, offset, slide)
    val windows = Seq.newBuilder[TimeWindow]
    while (start > time - size) {
      windows += TimeWindow(start, start + size)
      start -= slide
    }
    windows.result()
  }

  override def getDefaultTrigger: Trigger[Any, TimeWindow] =
    if (isEventTime) EventTimeTrigger.create() else ProcessingTimeTrigger.create()
}

/** Windows one after the other, by event time. */
final class TumblingEventTimeWindows private (size: Duration, offset: Duration)
    extends FixedWindows(size, size, offset) {
  override def isEventTime: Boolean = true
}

object TumblingEventTimeWindows {

  /** Windows of this size; they begin at its multiples from the epoch, plus the offset. */
  def of(size: Duration, offset: Duration = Duration.ZERO): TumblingEventTimeWindows =
    new TumblingEventTimeWindows(size, offset)
}

/** Windows one after the other, by processing time. */
final class TumblingProcessingTimeWindows private (size: Duration, offset: Duration)
    extends FixedWindows(size, size, offset) {
  override def isEventTime: Boolean = false
}

object TumblingProcessingTimeWindows {

  /** Windows of this size; they begin at its multiples from the epoch, plus the offset. */
  def of(size: Duration, offset: Duration = Duration.ZERO): TumblingProcessingTimeWindows =
    new TumblingProcessingTimeWindows(size, offset)
}

/** Windows that overlap, by event time. An element is in `size / slide` of them. */
final class SlidingEventTimeWindows private (size: Duration, slide: Duration, offset: Duration)
    extends FixedWindows(size, slide, offset) {
  override def isEventTime: Boolean = true
}

object SlidingEventTimeWindows {

  /** Windows of this size, of which one begins at every multiple of `slide`. */
  def of(
      size: Duration,
      slide: Duration,
      offset: Duration = Duration.ZERO
  ): SlidingEventTimeWindows = new SlidingEventTimeWindows(size, slide, offset)
}

/** Windows that overlap, by processing time. */
final class SlidingProcessingTimeWindows private (size: Duration, slide: Duration, offset: Duration)
    extends FixedWindows(size, slide, offset) {
  override def isEventTime: Boolean = false
}

object SlidingProcessingTimeWindows {

  /** Windows of this size, of which one begins at every multiple of `slide`. */
  def of(
      size: Duration,
      slide: Duration,
      offset: Duration = Duration.ZERO
  ): SlidingProcessingTimeWindows = new SlidingProcessingTimeWindows(size, slide, offset)
}
