package org.apache.spark.sql.keystate.python

/** The columns of messages between a task and a Python worker: each kind of state fills its columns
  * and takes the worker's changes from them.
  */
package object columns
