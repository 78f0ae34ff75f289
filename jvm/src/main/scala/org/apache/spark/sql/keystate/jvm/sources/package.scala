package org.apache.spark.sql.keystate.jvm

/** Stateful sources whose functions run in threads of the driver. Their log and offsets are those of
  * all sources: package `source`.
  */
package object sources
