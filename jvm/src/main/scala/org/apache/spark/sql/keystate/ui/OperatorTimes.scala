package org.apache.spark.sql.keystate.ui

import java.lang.{Long => JLong}

import org.apache.spark.sql.streaming.StateOperatorProgress

import org.apache.spark.sql.keystate.metrics.WorkerTimes

/** How the time of an operator's tasks in a micro-batch is divided, summed over all of them, in ms.
  *
  * @param workerStart
  *   until their Python workers had started; None if they have none
  * @param worker
  *   in these workers, including waits for rows and state; None if they have none
  * @param jvm
  *   the rest, with the commits
  */
private[ui] final case class OperatorTimes(
    workerStart: Option[Long],
    worker: Option[Long],
    jvm: Long
)

private[ui] object OperatorTimes {

  def of(progress: StateOperatorProgress): OperatorTimes = {
    def metric(name: String) = Option[JLong](progress.customMetrics.get(name)).map(_.toLong)
    val (start, worker) = (metric(WorkerTimes.WorkerStart), metric(WorkerTimes.Worker))
    // The parts are rounded, each task's by itself.
    val rest = Math.max(0, progress.allUpdatesTimeMs - start.getOrElse(0L) - worker.getOrElse(0L))
    OperatorTimes(start, worker, rest + progress.allRemovalsTimeMs + progress.commitTimeMs)
  }
}
