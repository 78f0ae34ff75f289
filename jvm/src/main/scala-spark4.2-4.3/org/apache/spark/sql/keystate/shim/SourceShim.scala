package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.connector.read.streaming.ReadLimit
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceOffset
import org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner

/** Asks a source's Python process. From Spark 4.2 on, `latestOffset` gets an offset. */
private[keystate] object SourceShim {
  def ask(runner: PythonStreamingSourceRunner, request: String): String =
    runner.latestOffset(PythonStreamingSourceOffset(request), ReadLimit.allAvailable())
}
