package org.apache.spark.sql.keystate.jvm

/** Functions that have several elements at hand: async functions, whose calls overlap, and functions
  * of batches.
  */
package object calls
