package org.apache.spark.sql.keystate

/** Stateful sources: what their functions collect, and the state after it, is in a log in the
  * checkpoint. Functions in Python run in a worker, functions in Scala in threads of the driver.
  * Relies on Spark's Python data sources and micro-batch streams.
  */
package object source
