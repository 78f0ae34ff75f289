package org.apache.spark.sql.keystate

/** Counts the keys of some of the rows, for the tab "Keystate", if a setting asks for it. */
package object sampling
