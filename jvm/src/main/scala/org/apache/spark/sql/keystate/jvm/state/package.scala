package org.apache.spark.sql.keystate.jvm

/** The states of functions in Scala or Java: how they are declared, the keyed and broadcast states
  * that a function sees, and the operator state of one instance.
  */
package object state
