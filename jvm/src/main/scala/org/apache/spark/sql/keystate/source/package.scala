package org.apache.spark.sql.keystate

/** Stateful sources: what their functions collect, and the state after it, is in a log in the
  * checkpoint. Relies on Spark's Python data sources and micro-batch streams.
  */
package object source
