package org.apache.spark.sql.keystate.jvm

/** A function that makes one of the user's into one of another kind. */
trait FunctionAdapter {

  /** The user's. */
  def adapted: AnyRef
}
