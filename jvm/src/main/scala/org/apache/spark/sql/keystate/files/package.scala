package org.apache.spark.sql.keystate

/** The files of a query's checkpoint: Spark's logs, the storage of state over Spark's
  * `CheckpointFileManager`, and the fence that keeps a second driver out. Relies on Spark writing
  * each log entry only once.
  */
package object files
