package org.apache.spark.sql.keystate

import scala.util.Try

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryStartedEvent

import org.apache.spark.sql.keystate.rescale.RestartListener
import org.apache.spark.sql.keystate.ui.KeystateTab

/** Takes ownership of a checkpoint when its query starts, rescales it, and adds Keystate's tab to
  * Spark's web UI. Set as one of `spark.sql.streaming.streamingQueryListeners`. Spark makes it by its
  * class name.
  */
class RescaleOnRestart extends RestartListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit = {
    super.onQueryStarted(event)
    // A query runs as well without the tab.
    Try(SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession).foreach {
      KeystateTab.attach
    })
    ()
  }
}
