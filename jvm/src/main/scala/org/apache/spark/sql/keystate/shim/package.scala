package org.apache.spark.sql.keystate

/** What differs between the supported Sparks, and nothing else. The classes are in a folder for each
  * minor line, `jvm/src/main/scala-spark4.2` and so on, with the same names and the same use. Each
  * says what of that Spark it relies on.
  */
package object shim
