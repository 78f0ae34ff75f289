package org.apache.spark.sql.keystate

/** The tab "Keystate" of Spark's web UI. */
package object ui
