package org.apache.spark.sql.keystate

/** Calls that clients of Spark Connect make. Classes of Spark's jar for Connect are used only here
  * and in the plugin that a server loads.
  */
package object connect
