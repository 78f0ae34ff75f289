package org.apache.spark.sql.keystate.jvm

/** A function that adapts a user's function to another kind of function. */
trait FunctionAdapter {

  /** The user's function. */
  def adapted: AnyRef
}
