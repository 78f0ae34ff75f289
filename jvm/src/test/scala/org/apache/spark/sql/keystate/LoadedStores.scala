package org.apache.spark.sql.keystate

import org.apache.spark.sql.execution.streaming.state.StateStore

/** The stores that this JVM keeps loaded, which outlive their session. */
object LoadedStores {
  def unload(): Unit = StateStore.stop()
}
