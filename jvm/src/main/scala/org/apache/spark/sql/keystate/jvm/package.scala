package org.apache.spark.sql.keystate

/** Functions in Scala or Java. From the API of `keystate` it makes plans; in an operator's tasks it
  * calls the function, element by element, in batches, or with async calls that overlap, and writes
  * dead letters of what the function fails on.
  */
package object jvm
