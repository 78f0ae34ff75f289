package org.apache.spark.sql.keystate

/** The sizes of states: the reports of tasks, limits and how soon they are reached, and statistics
  * of some of the entries.
  */
package object size
