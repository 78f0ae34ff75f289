package org.apache.spark.sql.keystate

/** Deletion of keys' state, with all traces of it in the checkpoint: requests for it, the
  * micro-batches that do it, and the work of a task.
  */
package object forget
