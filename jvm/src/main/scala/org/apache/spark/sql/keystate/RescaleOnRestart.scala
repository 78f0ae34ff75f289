package org.apache.spark.sql.keystate

import scala.util.Try

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.StreamingQueryListener._

import org.apache.spark.sql.keystate.metrics.QuerySources
import org.apache.spark.sql.keystate.rescale.RestartListener
import org.apache.spark.sql.keystate.ui.KeystateTab

/** Takes ownership of a checkpoint when its query starts, rescales it, adds Keystate's tab to
  * Spark's web UI, and reports the query's progress to Spark's metrics system. Set as one of
  * `spark.sql.streaming.streamingQueryListeners`. Spark makes it by its class name.
  */
class RescaleOnRestart extends RestartListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit = {
    super.onQueryStarted(event)
    // A query runs as well without the tab and the metrics.
    Try(SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession).foreach {
      KeystateTab.attach
    })
    Try(QuerySources.started(event.id, event.name)): Unit
  }

  override def onQueryProgress(event: QueryProgressEvent): Unit = {
    super.onQueryProgress(event)
    QuerySources.progressed(event.progress)
  }

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = {
    super.onQueryTerminated(event)
    QuerySources.ended(event.id, event.exception)
  }
}
