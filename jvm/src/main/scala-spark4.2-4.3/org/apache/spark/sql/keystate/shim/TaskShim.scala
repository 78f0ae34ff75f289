package org.apache.spark.sql.keystate.shim

import org.apache.spark.TaskContext

private[keystate] object TaskShim {

  /** Why a task has failed; None if it has not. */
  def failureOf(context: TaskContext): Option[Throwable] = context.getTaskFailure
}
