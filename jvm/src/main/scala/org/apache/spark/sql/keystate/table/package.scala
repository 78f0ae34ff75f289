package org.apache.spark.sql.keystate

/** States of a checkpoint as read-only tables of Spark SQL. */
package object table
