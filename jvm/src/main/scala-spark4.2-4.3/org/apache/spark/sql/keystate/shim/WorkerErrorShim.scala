package org.apache.spark.sql.keystate.shim

import org.apache.spark.api.python.PythonException

/** An error of a Python worker, as Spark knows it. Relies on PythonException's constructor. */
private[keystate] abstract class WorkerErrorShim(text: String)
    extends PythonException("PYTHON_EXCEPTION", Map("msg" -> "", "traceback" -> text), null)
