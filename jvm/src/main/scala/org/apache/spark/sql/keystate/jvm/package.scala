package org.apache.spark.sql.keystate

/** Functions in Scala or Java: from the API of `keystate` to plans, and from an operator's tasks to
  * calls of the function and its states.
  */
package object jvm
