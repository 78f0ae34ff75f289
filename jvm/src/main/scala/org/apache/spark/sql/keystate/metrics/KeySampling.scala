package org.apache.spark.sql.keystate.metrics

import java.util.{Map => JMap, UUID}

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.streaming.StateOperatorProgress

/** Samples the keys of a micro-batch: those of every n-th row. */
private[keystate] final class KeySampling(
    every: Int,
    keys: Seq[Attribute],
    @transient queryRun: UUID,
    operator: Long
) extends OperatorReport[Any, SampledKeys] {
  import KeySampling._

  override protected def begin(subtask: Any, tell: SampledKeys => Unit): SubtaskReport =
    new KeyCounter(every, keys, tell)

  /** A micro-batch without rows leaves the sample before for the tab. */
  override def metrics(progress: StateOperatorProgress): Map[String, Long] = {
    val sample = told.values.foldLeft(SampledKeys.Empty)(_ merge _)
    if (sample.rows > 0) {
      // Taken out first, so that it counts as the newest.
      samples.remove((queryRun, operator)): Unit
      samples.put((queryRun, operator), sample): Unit
    }
    sample.hottestPercent.map(HottestKey -> _).toMap
  }
}

private[keystate] object KeySampling {
  private final val HottestKey = "keystateHottestKeyPercent"
  private val Kept = 100

  /** The last sample of each operator of this driver's queries. Thread-safe. */
  private val samples: JMap[(UUID, Long), SampledKeys] = Recent.map(Kept)

  /** The last sample of an operator in a query's run. */
  def last(run: UUID, operator: Long): Option[SampledKeys] = Option(samples.get((run, operator)))
}
