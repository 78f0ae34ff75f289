package org.apache.spark.sql.keystate

/** States of a checkpoint as tables of Spark SQL, which can only be read. */
package object table
