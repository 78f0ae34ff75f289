package org.apache.spark.sql.keystate.jvm

/** Dead letters: rows and timers that a function in Scala failed on. */
package object letters
