package org.apache.spark.sql.keystate.python

import org.apache.spark.JobArtifactSet
import org.apache.spark.api.python.ChainedPythonFunctions
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.ArrowPythonRunner
import org.apache.spark.sql.internal.SQLConf

/** A Python function with the data that Spark's runners need of it and of the session.
  *
  * @param chained
  *   the function and the id of its result, as Spark's runners take it
  * @param metrics
  *   Spark's metrics of Python functions, by their names
  */
private[keystate] final case class WorkerFunction(
    chained: Seq[(ChainedPythonFunctions, Long)],
    timeZoneId: String,
    conf: Map[String, String],
    metrics: Map[String, SQLMetric],
    jobArtifactUUID: Option[String]
)

private[keystate] object WorkerFunction {

  /** Messages are too small to need large types, whatever Spark's setting for its own functions. */
  final val LargeVarTypes = false

  def apply(udf: PythonUDF, conf: SQLConf, metrics: Map[String, SQLMetric]): WorkerFunction =
    WorkerFunction(
      Seq((ChainedPythonFunctions(Seq(udf.func)), udf.resultId.id)),
      conf.sessionLocalTimeZone,
      ArrowPythonRunner.getPythonRunnerConfMap(conf),
      metrics,
      JobArtifactSet.getCurrentJobArtifactState.map(_.uuid)
    )
}
