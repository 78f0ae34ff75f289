package org.apache.spark.sql.keystate.shim

import org.apache.spark.TaskContext

/** Spark 4.1 does not tell why a task failed, only that it did. */
private[keystate] object TaskShim {

  /** Why a task has failed; None if it has not. */
  def failureOf(context: TaskContext): Option[Throwable] =
    Option.when(context.isFailed())(new IllegalStateException("the task has failed already"))
}
