package org.apache.spark.sql.keystate

/** The reports of tasks to the driver besides their rows: metrics of functions, how long rows took,
  * and, if a setting asks for it, the keys of some of the rows. Also the maps that keep only the
  * latest entries (`Recent`).
  */
package object metrics
