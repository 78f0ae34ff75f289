package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf

import org.apache.spark.sql.keystate.state.DueTimers

/** The user's function of a keyed operator, in any language. */
private[keystate] trait OperatorFunction extends Serializable {

  /** Its name, if real-time mode refuses it; None if it can be used there. */
  def notInRealTime: Option[String] = None

  /** Makes, on the driver, the object that runs the function in tasks. */
  def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner
}

/** Runs the user's function in the tasks of one execution. */
private[keystate] trait FunctionRunner extends Serializable {

  /** Applies the function to rows, and then to the timers that are due, while the result is read:
    * including timers that rows and timers set.
    */
  def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass
}

/** One pass of a task over its rows and timers. */
private[keystate] trait FunctionPass {

  /** The function's results, in the operator's output columns. */
  def output: Iterator[InternalRow]

  /** Numbers of state entries put and removed. Valid once `output` was read to its end. */
  def updated: Long
  def removed: Long
}
