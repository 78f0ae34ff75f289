package org.apache.spark.sql.keystate.shim

/** The differences in the runner of Python functions before Spark 4.3. */
private[keystate] object PythonShim {

  /** Identifies a worker's process to a runner. */
  type WorkerHandle = Int
}
