package org.apache.spark.sql.keystate

/** How large states are: what tasks tell of it, limits and how soon they are reached, and what some of
  * the entries tell.
  */
package object size
