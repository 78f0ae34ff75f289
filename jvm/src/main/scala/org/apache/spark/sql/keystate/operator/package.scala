package org.apache.spark.sql.keystate

/** The physical operator and the work of its tasks, for functions in any language: the function is
  * an [[org.apache.spark.sql.keystate.operator.OperatorFunction]]. Relies on
  * `TransformWithStateExec`, to which Spark gives state info, watermarks and batch times.
  */
package object operator
