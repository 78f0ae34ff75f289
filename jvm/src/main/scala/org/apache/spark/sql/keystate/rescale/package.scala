package org.apache.spark.sql.keystate

/** Gives a stopped or starting query another number of partitions. Relies on what Spark's offset and
  * commit logs hold, and on when it reads them.
  */
package object rescale
