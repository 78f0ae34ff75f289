package keystate.windows

import java.time.Duration

import scala.collection.mutable.ArrayBuffer

import keystate.errors.KeystateErrors

/** Gives the gap that ends a session, by the element. */
trait SessionWindowTimeGapExtractor[-T] extends Serializable {

  /** The gap after this element, in ms, more than 0. */
  def extract(element: T): Long
}

/** Sessions: an element begins a window that lasts for the gap, and windows that meet are merged. */
sealed abstract class SessionWindows[-T] private[windows] (gap: SessionWindowTimeGapExtractor[T])
    extends MergingWindowAssigner[T, TimeWindow] {

  /** The gap in ms, if it is the same after each element. */
  private[keystate] def fixedGap: Option[Long] = gap match {
    case fixed: SessionWindows.FixedGap => Some(fixed.millis)
    case _ => None
  }

  override def assignWindows(
      element: T,
      timestamp: Long,
      context: WindowAssignerContext
  ): Seq[TimeWindow] = {
    val time = if (isEventTime) timestamp else context.getCurrentProcessingTime
    val millis = gap.extract(element)
    if (millis <= 0 || millis > SessionWindows.LongestGap)
      throw new IllegalArgumentException(
        "the gap of a session must be more than 0 and at most " +
          s"${SessionWindows.LongestGap} ms, not $millis"
      )
    TimeWindow(time, time + millis) :: Nil
  }

  override def mergeWindows(
      windows: Iterable[TimeWindow],
      merged: (Iterable[TimeWindow], TimeWindow) => Unit
  ): Unit = {
    var (group, whole) = (ArrayBuffer.empty[TimeWindow], Option.empty[TimeWindow])
    def end(): Unit = whole.foreach(result => if (group.size > 1) merged(group, result))
    windows.toSeq.sortBy(window => (window.start, window.end)).foreach { window =>
      whole match {
        case Some(result) if result.intersects(window) =>
          group += window
          whole = Some(result.cover(window))
        case _ =>
          end()
          group = ArrayBuffer(window)
          whole = Some(window)
      }
    }
    end()
  }

  override def getDefaultTrigger: Trigger[Any, TimeWindow] =
    if (isEventTime) EventTimeTrigger.create() else ProcessingTimeTrigger.create()
}

private object SessionWindows {

  /** In ms: the end of a session, a time that Spark has and the gap, fits into 64 bits. */
  val LongestGap: Long = 1L << 62

  def fixed(gap: Duration): SessionWindowTimeGapExtractor[Any] = {
    val millis = gap.toMillis
    if (millis <= 0 || millis > LongestGap)
      throw KeystateErrors.declaration(
        s"The gap of a session must be more than 0 and at most $LongestGap ms, not $millis ms."
      )
    new FixedGap(millis)
  }

  final class FixedGap(val millis: Long) extends SessionWindowTimeGapExtractor[Any] {
    override def extract(element: Any): Long = millis
  }
}

/** Sessions by event time. */
final class EventTimeSessionWindows[-T] private (gap: SessionWindowTimeGapExtractor[T])
    extends SessionWindows[T](gap) {
  override def isEventTime: Boolean = true
}

object EventTimeSessionWindows {

  /** Sessions that end when a key has had no elements for this long. */
  def withGap(gap: Duration): EventTimeSessionWindows[Any] =
    new EventTimeSessionWindows(SessionWindows.fixed(gap))

  /** Sessions whose gap each element tells, in ms. */
  def withDynamicGap[T](extractor: SessionWindowTimeGapExtractor[T]): EventTimeSessionWindows[T] =
    new EventTimeSessionWindows(extractor)
}

/** Sessions by processing time. */
final class ProcessingTimeSessionWindows[-T] private (gap: SessionWindowTimeGapExtractor[T])
    extends SessionWindows[T](gap) {
  override def isEventTime: Boolean = false
}

object ProcessingTimeSessionWindows {

  /** Sessions that end when a key has had no elements for this long. */
  def withGap(gap: Duration): ProcessingTimeSessionWindows[Any] =
    new ProcessingTimeSessionWindows(SessionWindows.fixed(gap))

  /** Sessions whose gap each element tells, in ms. */
  def withDynamicGap[T](
      extractor: SessionWindowTimeGapExtractor[T]
  ): ProcessingTimeSessionWindows[T] = new ProcessingTimeSessionWindows(extractor)
}
