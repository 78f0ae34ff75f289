package org.apache.spark.sql.keystate.store

/** A subtask of a micro-batch, for what needs no more of it than its store. */
private[keystate] trait StoredSubtask {
  def store: KeyGroupStateStore
}
