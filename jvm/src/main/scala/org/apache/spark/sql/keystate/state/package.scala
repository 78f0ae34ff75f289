package org.apache.spark.sql.keystate

/** The kinds of state over a backend's entries, whatever language the function is in: lists, timers,
  * broadcast states, operator state, raw keyed state.
  */
package object state
