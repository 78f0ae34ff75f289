package org.apache.spark.sql.keystate.jvm

/** Calls of one function that overlap: which are in flight, and what they wait for. */
package object async
