package org.apache.spark.sql.keystate.shim

/** What differs in the runner of Python functions of Spark before 4.3. */
private[keystate] object PythonShim {

  /** What tells a runner which process a worker is. */
  type WorkerHandle = Int
}
