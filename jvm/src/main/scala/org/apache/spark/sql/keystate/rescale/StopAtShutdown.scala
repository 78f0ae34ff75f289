package org.apache.spark.sql.keystate.rescale

import scala.annotation.tailrec

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.util.ShutdownHookManager

/** Ends a query when the JVM is told to end (SIGTERM), at the end of its micro-batch, before Spark's
  * own hook ends the context. Relies on Spark's hooks running by priority, the highest first, and one
  * after the other.
  *
  * @param graceMillis
  *   how long to wait for the micro-batch's end; then it is cut off
  */
private[keystate] final class StopAtShutdown(query: StreamExecution, graceMillis: Long)
    extends Logging {
  def register(): Unit = {
    ShutdownHookManager.addShutdownHook(ShutdownHookManager.SPARK_CONTEXT_SHUTDOWN_PRIORITY + 10) {
      () => if (query.isActive) stop()
    }
    ()
  }

  private def stop(): Unit = {
    awaitBorder(lastBatch, System.nanoTime + graceMillis * 1000000)
    query.stop()
  }

  @tailrec private def awaitBorder(ended: Option[String], deadline: Long): Unit =
    if (query.isActive && query.status.isTriggerActive && lastBatch == ended)
      if (System.nanoTime < deadline) {
        Thread.sleep(10)
        awaitBorder(ended, deadline)
      } else logWarning(s"${query.id} did not end its micro-batch within $graceMillis ms")

  /** Tells micro-batches apart. */
  private def lastBatch: Option[String] =
    Option(query.lastProgress).map(progress => s"${progress.batchId} ${progress.timestamp}")
}
