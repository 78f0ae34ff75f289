package org.apache.spark.sql.keystate.files

import org.apache.spark.util.Utils
import org.apache.spark.{SparkEnv, TaskContext}

import keystate.files.LocalFolder

private[keystate] object TaskFolder {

  /** A folder for a task's scratch files, deleted when the task ends. */
  def apply(prefix: String): LocalFolder = {
    val folder =
      new LocalFolder(() => Utils.createExecutorLocalTempDir(SparkEnv.get.conf, prefix))
    TaskContext.get().addTaskCompletionListener[Unit](_ => folder.close())
    folder
  }
}
