package org.apache.spark.sql.keystate.python

/** Makes the messages of a task with rows and timers: how many go together, which states go with
  * them, and when the worker's cache is emptied.
  */
package object messages
