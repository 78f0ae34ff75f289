package org.apache.spark.sql.keystate

/** The physical operator and what its tasks do, without the language of the function: that comes in
  * as an [[org.apache.spark.sql.keystate.operator.OperatorFunction]]. Relies on
  * `TransformWithStateExec`, which Spark gives state info, watermarks and batch times.
  */
package object operator
