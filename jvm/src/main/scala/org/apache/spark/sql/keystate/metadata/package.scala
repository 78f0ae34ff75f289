package org.apache.spark.sql.keystate

/** A checkpoint's records of its operators: Keystate's own record, and Spark's operator metadata
  * and state schemas, which Spark's `statestore` reader uses.
  */
package object metadata
