package org.apache.spark.sql.keystate

/** The kinds of state, made of a backend's entries, for functions in any language: lists, timers,
  * broadcast states, operator state, raw keyed state.
  */
package object state
