package keystate.windows

import java.time.Duration

import scala.collection.mutable

import keystate.errors.KeystateErrors

/** An element of a window.
  *
  * @param timestamp
  *   its event time in ms since the epoch, if it has one
  */
final class TimestampedValue[T] private[windows] (
    val value: T,
    val timestamp: Option[Long],
    private[windows] val number: Long
)

/** What an evictor is told. */
trait EvictorContext {

  /** The time of the micro-batch in ms since the epoch. */
  def getCurrentProcessingTime: Long

  /** The watermark in ms since the epoch; `Long.MinValue` while there is none. */
  def getCurrentWatermark: Long
}

/** Takes elements out of a window, before or after its function has them. What it removes from the
  * buffer is gone from the window.
  */
abstract class Evictor[T, -W <: Window] extends Serializable {

  /** Called before the function.
    *
    * @param elements
    *   the window's elements as they came
    * @param size
    *   how many there are
    */
  def evictBefore(
      elements: mutable.IndexedBuffer[TimestampedValue[T]],
      size: Int,
      window: W,
      ctx: EvictorContext
  ): Unit

  /** Called after the function.
    *
    * @param elements
    *   the window's elements as they came
    * @param size
    *   how many there are
    */
  def evictAfter(
      elements: mutable.IndexedBuffer[TimestampedValue[T]],
      size: Int,
      window: W,
      ctx: EvictorContext
  ): Unit
}

/** Takes elements out before the function, or after it. */
sealed abstract class OneEvictor[T] private[windows] (doEvictAfter: Boolean)
    extends Evictor[T, Window] {
  protected def evict(elements: mutable.IndexedBuffer[TimestampedValue[T]]): Unit

  override def evictBefore(
      elements: mutable.IndexedBuffer[TimestampedValue[T]],
      size: Int,
      window: Window,
      ctx: EvictorContext
  ): Unit = if (!doEvictAfter) evict(elements)

  override def evictAfter(
      elements: mutable.IndexedBuffer[TimestampedValue[T]],
      size: Int,
      window: Window,
      ctx: EvictorContext
  ): Unit = if (doEvictAfter) evict(elements)
}

/** Keeps the last elements, so many. */
final class CountEvictor[T] private (maxCount: Int, doEvictAfter: Boolean)
    extends OneEvictor[T](doEvictAfter) {
  if (maxCount < 0)
    throw KeystateErrors.declaration(s"CountEvictor needs a count of at least 0, not $maxCount.")

  override protected def evict(elements: mutable.IndexedBuffer[TimestampedValue[T]]): Unit =
    elements.dropInPlace(elements.size - maxCount): Unit
}

object CountEvictor {

  /** An evictor that keeps the last `maxCount` elements. */
  def of[T](maxCount: Int, doEvictAfter: Boolean = false): CountEvictor[T] =
    new CountEvictor(maxCount, doEvictAfter)
}

/** Keeps the elements whose event time is less than `windowSize` before the latest one. */
final class TimeEvictor[T] private (windowSize: Duration, doEvictAfter: Boolean)
    extends OneEvictor[T](doEvictAfter) {
  private val size = windowSize.toMillis

  override protected def evict(elements: mutable.IndexedBuffer[TimestampedValue[T]]): Unit =
    elements.iterator.flatMap(_.timestamp).maxOption.foreach { last =>
      elements.filterInPlace(_.timestamp.forall(_ > last - size))
    }
}

object TimeEvictor {

  /** An evictor that keeps the elements of the last `windowSize`. */
  def of[T](windowSize: Duration, doEvictAfter: Boolean = false): TimeEvictor[T] =
    new TimeEvictor(windowSize, doEvictAfter)
}

/** How far apart two elements are. */
trait DeltaFunction[-T] extends Serializable {
  def getDelta(oldValue: T, newValue: T): Double
}

/** Keeps the elements that differ from the last one by less than a threshold. */
final class DeltaEvictor[T] private (
    threshold: Double,
    delta: DeltaFunction[T],
    doEvictAfter: Boolean
) extends OneEvictor[T](doEvictAfter) {
  override protected def evict(elements: mutable.IndexedBuffer[TimestampedValue[T]]): Unit =
    elements.lastOption.foreach { last =>
      elements.filterInPlace(each => delta.getDelta(each.value, last.value) < threshold)
    }
}

object DeltaEvictor {

  /** An evictor with a threshold. */
  def of[T](
      threshold: Double,
      delta: DeltaFunction[T],
      doEvictAfter: Boolean = false
  ): DeltaEvictor[T] = new DeltaEvictor(threshold, delta, doEvictAfter)
}
