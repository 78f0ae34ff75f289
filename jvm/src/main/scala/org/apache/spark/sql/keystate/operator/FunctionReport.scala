package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.streaming.StateOperatorProgress

import org.apache.spark.sql.keystate.metrics.{MetricValues, OperatorReport, SubtaskReport}

/** The function's own metrics in a micro-batch, and in real-time mode its latencies. */
private[operator] final class FunctionReport extends OperatorReport[StreamSubtask, MetricValues] {
  override protected def begin(subtask: StreamSubtask, tell: MetricValues => Unit): SubtaskReport =
    () => tell(subtask.task.metrics)

  /** What a sink has prepared is committed when the next micro-batch begins. */
  override def wantsBatch: Boolean =
    told.values.exists(_.sums.getOrElse(FunctionReport.Prepared, 0L) > 0)

  override def metrics(progress: StateOperatorProgress): Map[String, Long] =
    told.values.foldLeft(MetricValues.Empty)(_ merge _).all
}

private[keystate] object FunctionReport {

  /** The metric that counts what a sink of two phases prepared in a micro-batch. */
  final val Prepared = "transactionsPrepared"
}
