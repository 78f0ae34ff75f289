package org.apache.spark.sql.keystate

/** Windows of column aggregates that end: the JVM fires them itself, no worker is asked. */
package object windows
