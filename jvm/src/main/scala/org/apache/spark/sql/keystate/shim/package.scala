package org.apache.spark.sql.keystate

/** The differences between the supported Spark versions, and nothing else. The classes are in a
  * folder for each minor line, `jvm/src/main/scala-spark4.2` and so on, with the same names and the
  * same use. Each says what it relies on in that Spark.
  */
package object shim
