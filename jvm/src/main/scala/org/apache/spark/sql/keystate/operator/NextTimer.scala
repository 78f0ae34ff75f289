package org.apache.spark.sql.keystate.operator

import keystate.TimeDomain
import org.apache.spark.sql.keystate.metrics.{OperatorReport, SubtaskReport}

/** Asks for a micro-batch when a processing-time timer is due. Each subtask tells the time of the
  * first one that is left. Timers that have passed and are left wait for a next micro-batch,
  * whatever that is run for.
  */
private[operator] final class NextTimer extends OperatorReport[StreamSubtask, Long] {
  override protected def begin(subtask: StreamSubtask, tell: Long => Unit): SubtaskReport =
    () => {
      val now = subtask.task.batch.processingTime
      subtask.task.timers.flatMap(_.next(TimeDomain.PROCESSING_TIME, after = now)).foreach(tell)
    }

  override def wantsBatch: Boolean = told.values.exists(_ <= System.currentTimeMillis)
}
