package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner

/** Asks a source's Python process. Spark 4.1 tells `latestOffset` nothing, so what is asked is told
  * by a `commit` before.
  */
private[keystate] object SourceShim {
  def ask(runner: PythonStreamingSourceRunner, request: String): String = {
    runner.commit(s"""{"request": $request}""")
    runner.latestOffset()
  }
}
