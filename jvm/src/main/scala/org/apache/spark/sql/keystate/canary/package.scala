package org.apache.spark.sql.keystate

/** Forks: copies of a checkpoint for a query that runs beside the original's, and their promotion
  * to its place.
  */
package object canary
