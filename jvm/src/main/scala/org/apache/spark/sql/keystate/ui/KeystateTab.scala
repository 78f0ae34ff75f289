package org.apache.spark.sql.keystate.ui

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.ui.{SparkUI, SparkUITab}

/** A tab of Spark's web UI that shows the state of running queries. It collects nothing: its
  * content is read when somebody opens it.
  *
  * Relies on Spark's UI classes, and on the list of running queries that the sessions of a driver
  * share.
  */
private[keystate] final class KeystateTab(ui: SparkUI, session: SparkSession)
    extends SparkUITab(ui, "keystate") {
  attachPage(
    new QueriesPage(this, () => session.sharedState.activeStreamingQueries.values.asScala.toSeq)
  )
}

private[keystate] object KeystateTab {

  /** Adds the tab to the UI of a session's driver, if it has a UI without the tab. */
  def attach(session: SparkSession): Unit = synchronized {
    session.sparkContext.ui.filterNot(_.getTabs.exists(_.isInstanceOf[KeystateTab])).foreach { ui =>
      ui.attachTab(new KeystateTab(ui, session))
    }
  }
}
