package org.apache.spark.sql.keystate.jvm

/** How JVM functions declare their states, and the operator state of one instance of a function. */
package object state
