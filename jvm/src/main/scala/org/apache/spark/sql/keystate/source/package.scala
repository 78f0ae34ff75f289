package org.apache.spark.sql.keystate

/** Stateful sources: a reader in Python whose state is in the checkpoint. Relies on Spark's Python
  * data sources and micro-batch streams.
  */
package object source
