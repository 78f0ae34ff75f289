package org.apache.spark.sql.keystate

/** The parts of real-time mode that functions in any language share: rows are read in a separate
  * thread, timers are looked up as the clock goes on, and row latencies are measured.
  */
package object realtime
