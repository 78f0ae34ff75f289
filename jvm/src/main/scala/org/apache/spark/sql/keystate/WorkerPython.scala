package org.apache.spark.sql.keystate

import scala.sys.process.{Process, ProcessLogger}
import scala.util.Try

/** The Python that runs the functions of clients of Spark Connect. */
private[keystate] object WorkerPython {

  /** The command that Spark chooses in `SparkConnectPlanner`. */
  private def command: String =
    sys.env.getOrElse("PYSPARK_PYTHON", sys.env.getOrElse("PYSPARK_DRIVER_PYTHON", "python3"))

  /** Its version, such as `3.11`; none if it does not run on this machine. Executors use the same
    * command.
    */
  lazy val version: Option[String] = {
    val script = "import sys; print('%d.%d' % sys.version_info[:2])"
    Try(Process(Seq(command, "-c", script)).!!(ProcessLogger(_ => ())).trim).toOption
  }
}
