package org.apache.spark.sql.keystate

/** Operations on a query's checkpoint as a whole: inspect, verify, compare, savepoint, import. */
package object checkpoint
