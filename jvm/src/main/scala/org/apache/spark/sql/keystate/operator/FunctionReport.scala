package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.streaming.StateOperatorProgress

import org.apache.spark.sql.keystate.metrics.{MetricValues, OperatorReport, SubtaskReport}

/** The function's own metrics in a micro-batch, and in real-time mode its latencies. */
private[operator] final class FunctionReport extends OperatorReport[StreamSubtask, MetricValues] {
  override protected def begin(subtask: StreamSubtask, tell: MetricValues => Unit): SubtaskReport =
    () => tell(subtask.task.metrics)

  override def metrics(progress: StateOperatorProgress): Map[String, Long] =
    told.values.foldLeft(MetricValues.Empty)(_ merge _).all
}
