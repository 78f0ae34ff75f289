package org.apache.spark.sql.keystate.python

import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf

import org.apache.spark.sql.keystate.operator.{FunctionRunner, OperatorFunction}

/** A function in Python.
  *
  * @param udf
  *   runs the function over Arrow batches
  */
private[keystate] final case class PythonOperatorFunction(udf: PythonUDF) extends OperatorFunction {
  override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner =
    new PythonRunner(udf, conf, metrics)
}
