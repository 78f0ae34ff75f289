package org.apache.spark.sql.keystate

/** Functions in Scala or Java. The package makes plans from the API of `keystate`. In an operator's
  * tasks it calls the function: element by element, in batches, or with overlapping async calls. It
  * writes dead letters for rows whose calls fail.
  */
package object jvm
