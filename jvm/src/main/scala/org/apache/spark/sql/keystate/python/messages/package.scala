package org.apache.spark.sql.keystate.python

/** The messages between a task and a Python worker: how many rows and timers go together, which
  * states go with them, and when the worker's cache is emptied. Each kind of state fills its own
  * columns, and stores the worker's changes from them. A message of few rows may be packed instead:
  * rows, keys and values as Spark holds them.
  */
package object messages
