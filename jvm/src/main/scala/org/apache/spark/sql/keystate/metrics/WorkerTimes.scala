package org.apache.spark.sql.keystate.metrics

import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.streaming.StateOperatorProgress

/** How long the tasks of a micro-batch were with their Python workers.
  *
  * @param measured
  *   the measurements of Spark's runner, in ms. None for Scala, and none of processing on Spark 4.1.
  *   For a reused worker, Spark's "init" begins when its last task ended; so the start is the rest
  *   of the total.
  */
private[keystate] final class WorkerTimes(measured: Map[String, SQLMetric])
    extends OperatorReport[Any, Nothing] {
  import WorkerTimes._

  override protected def isNeeded(): Boolean = false

  override def metrics(progress: StateOperatorProgress): Map[String, Long] = {
    def ms(name: String) = measured.get(name).fold(0L)(_.value)
    if (ms("pythonTotalTime") <= 0 || !measured.contains("pythonProcessingTime")) Map.empty
    else
      Map(
        WorkerStart -> (ms("pythonTotalTime") - ms("pythonProcessingTime")),
        Worker -> ms("pythonProcessingTime")
      )
  }
}

private[keystate] object WorkerTimes {

  // Names in a query's progress.
  val WorkerStart = "keystateWorkerStartMs"
  val Worker = "keystateWorkerMs"
}
