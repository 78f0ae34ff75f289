package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.ColumnarRule

/** The minor line of Spark that this jar is for. */
private[keystate] object SparkLine {
  val Name: String = "4.2"

  /** The additions for this Spark line only. */
  val Rules: Seq[ColumnarRule] = Nil
}
