package org.apache.spark.sql.keystate

/** Operators whose body is made of Spark's expressions: they run in the task's JVM, without a worker
  * and without a function of the user's. An operator's body is an
  * [[org.apache.spark.sql.keystate.operator.OperatorFunction]] in any case; this package has those
  * that are given as columns: aggregates, and joins in time.
  *
  * A body knows its input by position only: Spark renews the ids of a plan's columns, for instance
  * where a result is joined with itself.
  */
package object expression
