package org.apache.spark.sql.keystate.metrics

import java.util.{Map => JMap, UUID}

/** The last sample of each operator of this driver's queries, for the tab. Thread-safe. */
private[keystate] object LastSamples {
  private val Kept = 100

  private val samples: JMap[(UUID, Long), SampledKeys] = Recent.map(Kept)

  /** Notes a sample. A micro-batch without rows leaves the one before. */
  def put(run: UUID, operator: Long, sample: SampledKeys): Unit = if (sample.rows > 0) {
    // Taken out first, so that it counts as the newest.
    samples.remove((run, operator)): Unit
    samples.put((run, operator), sample): Unit
  }

  /** @param run
    *   the query's run
    */
  def get(run: UUID, operator: Long): Option[SampledKeys] = Option(samples.get((run, operator)))
}
