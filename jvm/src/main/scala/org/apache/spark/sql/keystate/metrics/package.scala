package org.apache.spark.sql.keystate

/** What tasks tell the driver of a micro-batch besides its rows: metrics of functions, how long
  * rows took, and, if a setting asks for it, the keys of some of the rows. Also the maps that keep
  * only what came last (`Recent`).
  */
package object metrics
