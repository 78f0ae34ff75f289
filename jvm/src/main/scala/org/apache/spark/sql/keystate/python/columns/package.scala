package org.apache.spark.sql.keystate.python

/** The columns of messages between a task and a Python worker. Each kind of state fills its own
  * columns, and stores the worker's changes from them. A message of few rows may be packed instead:
  * rows, keys and values as Spark holds them.
  */
package object columns
