package org.apache.spark.sql.keystate.shim

import org.apache.spark.api.python.PythonWorkerHandle

/** The differences in Spark 4.3's runner of Python functions. */
private[keystate] object PythonShim {

  /** Identifies a worker's process to a runner. */
  type WorkerHandle = PythonWorkerHandle
}
