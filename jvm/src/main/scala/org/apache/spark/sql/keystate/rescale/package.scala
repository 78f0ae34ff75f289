package org.apache.spark.sql.keystate

/** Gives a stopped or starting query another number of partitions. Relies on what Spark's offset
  * log and commit log hold, and on when Spark reads them.
  */
package object rescale
