package org.apache.spark.sql.keystate.operator

import scala.collection.mutable

import org.apache.spark.util.AccumulatorV2

/** Values of the function's own metrics, and of what is measured around it. `merge` makes those of
  * several subtasks one.
  */
private[keystate] final case class MetricValues(
    sums: Map[String, Long] = Map.empty,
    minima: Map[String, Long] = Map.empty,
    maxima: Map[String, Long] = Map.empty,
    latencies: Map[String, LatencyHistogram] = Map.empty
) {
  import MetricValues._

  def merge(other: MetricValues): MetricValues = MetricValues(
    combined(sums, other.sums)(_ + _),
    combined(minima, other.minima)(math.min),
    combined(maxima, other.maxima)(math.max),
    combined(latencies, other.latencies)(_ merge _)
  )

  def all: Map[String, Long] = sums ++ minima ++ maxima ++ percentiles

  private def percentiles = for {
    (name, times) <- latencies
    (label, share) <- Percentiles
  } yield s"$name.$label" -> times.percentile(share)
}

private[keystate] object MetricValues {
  val Empty: MetricValues = MetricValues()

  private val Percentiles = Seq("p50" -> 0.5, "p95" -> 0.95, "p99" -> 0.99, "max" -> 1.0)

  private def combined[T](a: Map[String, T], b: Map[String, T])(
      fold: (T, T) => T
  ): Map[String, T] =
    b.foldLeft(a) { case (all, (name, value)) =>
      all.updated(name, all.get(name).fold(value)(fold(_, value)))
    }
}

/** The function's metrics in a micro-batch, by subtask. A subtask can report more than once: by
  * several attempts, or by a task that runs again for another action or a lost shuffle file. Then
  * one report counts: it replaces the one before.
  */
private[keystate] final class FunctionMetrics
    extends AccumulatorV2[(Int, MetricValues), Map[Int, MetricValues]] {
  private val bySubtask = mutable.HashMap.empty[Int, MetricValues]

  override def isZero: Boolean = bySubtask.isEmpty
  override def copy(): FunctionMetrics = {
    val copied = new FunctionMetrics
    copied.bySubtask ++= bySubtask
    copied
  }
  override def reset(): Unit = bySubtask.clear()
  override def add(of: (Int, MetricValues)): Unit = bySubtask += of
  override def merge(other: AccumulatorV2[(Int, MetricValues), Map[Int, MetricValues]]): Unit =
    bySubtask ++= other.value
  override def value: Map[Int, MetricValues] = bySubtask.toMap

  def total: MetricValues = value.values.foldLeft(MetricValues.Empty)(_ merge _)
}
