package org.apache.spark.sql.keystate.shim

import org.apache.spark.api.python.PythonWorkerHandle

/** What differs in Spark 4.3's runner of Python functions. */
private[keystate] object PythonShim {

  /** What tells a runner which process a worker is. */
  type WorkerHandle = PythonWorkerHandle
}
