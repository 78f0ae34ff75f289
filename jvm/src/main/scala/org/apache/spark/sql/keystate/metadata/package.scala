package org.apache.spark.sql.keystate

/** What a checkpoint says of its operators: Keystate's own record, and Spark's operator metadata and
  * state schemas, which its `statestore` reader goes by.
  */
package object metadata
