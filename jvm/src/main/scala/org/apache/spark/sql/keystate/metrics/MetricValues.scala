package org.apache.spark.sql.keystate.metrics

/** Values of the function's own metrics, and of measurements around it. `merge` combines those of
  * several subtasks.
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

  private def combined[T](a: Map[String, T], b: Map[String, T])(fold: (T, T) => T): Map[String, T] =
    b.foldLeft(a) { case (all, (name, value)) =>
      all.updated(name, all.get(name).fold(value)(fold(_, value)))
    }
}
