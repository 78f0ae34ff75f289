package org.apache.spark.sql.keystate

/** Looks at a query's checkpoint as a whole: inspect, verify, compare. */
package object checkpoint
