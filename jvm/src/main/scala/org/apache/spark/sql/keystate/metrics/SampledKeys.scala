package org.apache.spark.sql.keystate.metrics

/** The keys that came most often in a sample of rows.
  *
  * @param rows
  *   how many rows were sampled
  * @param counts
  *   keys, as text, with at least how many of these rows they had
  */
private[keystate] final case class SampledKeys(rows: Long, counts: Seq[(String, Long)]) {

  /** The most frequent key's share of the sampled rows, in percent; None without rows. */
  def hottestPercent: Option[Long] = counts.headOption.map(_._2 * 100 / rows)

  /** The keys of both; their rows and keys differ, because a key belongs to one subtask. */
  def merge(other: SampledKeys): SampledKeys = SampledKeys(
    rows + other.rows,
    (counts ++ other.counts).sortBy { case (key, count) => (-count, key) }.take(SampledKeys.Most)
  )
}

private[keystate] object SampledKeys {
  val Empty: SampledKeys = SampledKeys(0, Nil)

  /** How many keys are reported. */
  val Most = 10
}
