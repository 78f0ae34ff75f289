package org.apache.spark.sql.keystate.shim

import java.io.DataOutputStream

import org.apache.arrow.vector.VectorUnloader

import org.apache.spark.api.python.ChainedPythonFunctions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.{BaseArrowPythonRunner, PythonUDFRunner}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Spark's runner of a Python function that takes and returns Arrow batches, from 4.2 on. Relies on
  * its parameters, and on `runnerConf`, the settings that a worker gets.
  */
private[keystate] abstract class ArrowRunnerShim(
    functions: Seq[(ChainedPythonFunctions, Long)],
    evalType: Int,
    schema: StructType,
    timeZoneId: String,
    largeVarTypes: Boolean,
    conf: Map[String, String],
    metrics: Map[String, SQLMetric],
    jobArtifactUUID: Option[String]
) extends BaseArrowPythonRunner[InternalRow, ColumnarBatch](
      functions,
      evalType,
      Array(Array(0)),
      schema,
      timeZoneId,
      largeVarTypes,
      metrics,
      jobArtifactUUID,
      None
    ) {

  /** Makes messages of `root`. */
  protected lazy val unloader: VectorUnloader = new VectorUnloader(root, true, codec, true)

  override protected def runnerConf: Map[String, String] = super.runnerConf ++ conf

  override protected def writeUDF(dataOut: DataOutputStream): Unit =
    PythonUDFRunner.writeUDFs(dataOut, functions, Array(Array(0)))
}
