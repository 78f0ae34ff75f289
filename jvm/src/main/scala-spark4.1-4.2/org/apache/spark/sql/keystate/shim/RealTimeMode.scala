package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streaming.Trigger

/** Spark before 4.3 has real-time mode for queries without state only. */
private[keystate] object RealTimeMode {

  /** The setting by which Spark refuses operators that it does not know in real-time mode. None if
    * Spark has no real-time mode for queries with state.
    */
  val Allowlist: Option[String] = None

  def isTrigger(trigger: Trigger): Boolean = false

  def isOf(plan: LogicalPlan): Boolean = false

  def checkOperators(plan: SparkPlan): Unit = ()
}

/** Keystate's operators in a logical plan. */
private[keystate] trait StatefulPlanShim extends LogicalPlan
