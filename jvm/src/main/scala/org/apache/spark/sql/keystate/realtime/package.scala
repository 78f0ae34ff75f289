package org.apache.spark.sql.keystate

/** What functions in any language need in real-time mode: rows are read in a thread of their own,
  * timers are looked up as the clock goes on, and how long rows take is measured.
  */
package object realtime
