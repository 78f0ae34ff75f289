package org.apache.spark.sql.keystate

/** Savepoints, whole or by reference, their list and their deletion, and imports of checkpoints
  * that Spark's own stores made.
  */
package object savepoint
