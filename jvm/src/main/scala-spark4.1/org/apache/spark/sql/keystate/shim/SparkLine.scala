package org.apache.spark.sql.keystate.shim

/** The minor line of Spark that this jar is for. */
private[keystate] object SparkLine {
  val Name: String = "4.1"
}
