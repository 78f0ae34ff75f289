package org.apache.spark.sql.keystate

/** Functions in Scala or Java. From the API of `keystate` it makes plans; in an operator's tasks it
  * calls the function and provides its states.
  */
package object jvm
