package org.apache.spark.sql.keystate.shim

/** What differs in Spark 4.2's runner of Python functions. */
private[keystate] object PythonShim {

  /** What tells a runner which process a worker is. */
  type WorkerHandle = Int
}
