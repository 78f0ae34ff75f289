package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner

/** Asks a source's Python process. Spark 4.1 passes nothing to `latestOffset`, so a `commit` before
  * it passes the request.
  */
private[keystate] object SourceShim {
  def ask(runner: PythonStreamingSourceRunner, request: String): String = {
    runner.commit(s"""{"request": $request}""")
    runner.latestOffset()
  }
}
