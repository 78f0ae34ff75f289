package org.apache.spark.sql.keystate.metrics

import org.apache.spark.sql.execution.metric.SQLMetric

/** How long the tasks of a micro-batch were with their Python workers. */
private[keystate] object WorkerTimes {

  // Names in a query's progress.
  val WorkerStart = "keystateWorkerStartMs"
  val Worker = "keystateWorkerMs"

  /** The measurements of Spark's runner, in ms. None for Scala, and none on Spark 4.1, which does
    * not report the time of processing. For a reused worker, Spark's "init" begins when its last
    * task ended; so the start is the rest of the total.
    */
  def of(measured: Map[String, SQLMetric]): Map[String, Long] = {
    def ms(name: String) = measured.get(name).fold(0L)(_.value)
    if (ms("pythonTotalTime") <= 0 || !measured.contains("pythonProcessingTime")) Map.empty
    else
      Map(
        WorkerStart -> (ms("pythonTotalTime") - ms("pythonProcessingTime")),
        Worker -> ms("pythonProcessingTime")
      )
  }
}
