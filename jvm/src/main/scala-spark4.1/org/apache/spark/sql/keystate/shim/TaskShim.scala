package org.apache.spark.sql.keystate.shim

import org.apache.spark.TaskContext

/** Spark 4.1 reports why a task has failed only to a listener, and immediately if it is added
  * afterwards.
  */
private[keystate] object TaskShim {

  /** Why a task has failed; None if it has not. */
  def failureOf(context: TaskContext): Option[Throwable] =
    if (!context.isFailed()) None
    else {
      var failure: Throwable = new IllegalStateException("the task has failed already")
      context.addTaskFailureListener((_, e) => failure = e)
      Some(failure)
    }
}
