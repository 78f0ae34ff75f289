package org.apache.spark.sql.keystate.rescale

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.util.ShutdownHookManager

/** Ends a query when the JVM is asked to end (SIGTERM), at the end of its micro-batch, before
  * Spark's own hooks end executors and the context. Relies on Spark's hooks running by priority,
  * the highest first, and one after the other.
  *
  * @param running
  *   returns the current query: an elastic query may have started again
  * @param graceMillis
  *   how long to wait for the micro-batch's end; then it is interrupted
  */
private[keystate] final class StopAtShutdown(
    running: () => Option[StreamExecution],
    graceMillis: Long
) extends Logging {
  def register(): Unit = {
    ShutdownHookManager.addShutdownHook(ShutdownHookManager.DEFAULT_SHUTDOWN_PRIORITY + 10) { () =>
      running().filter(_.isActive).foreach(stop)
    }
    ()
  }

  private def stop(query: StreamExecution): Unit = {
    if (!StopAfterBatch.hold(query, graceMillis))
      logWarning(s"${query.id} did not end its micro-batch within $graceMillis ms")
    query.stop()
  }
}
