package org.apache.spark.sql.keystate

/** Keys whose state is to go, with all traces of it in the checkpoint: requests for it, the
  * micro-batches that do it, and what a task does.
  */
package object forget
