package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.execution.streaming.runtime.RealTimeModeAllowlist
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger

/** Real-time mode of Spark 4.3. */
private[keystate] object RealTimeMode {

  /** The setting by which Spark refuses operators that it does not know in real-time mode. None if
    * Spark has no real-time mode for queries with state.
    */
  val Allowlist: Option[String] = Some(SQLConf.STREAMING_REAL_TIME_MODE_ALLOWLIST_CHECK.key)

  def isTrigger(trigger: Trigger): Boolean = trigger.isInstanceOf[RealTimeTrigger]

  /** Whether a plan's rows come while a batch lasts. Relies on a source that is planned for a batch
    * with a start but without an end.
    */
  def isOf(plan: LogicalPlan): Boolean = plan.exists {
    case source: StreamingDataSourceV2ScanRelation =>
      source.startOffset.isDefined && source.endOffset.isEmpty
    case _ => false
  }

  /** Throws Spark's error if an operator can't run in real-time mode. */
  def checkOperators(plan: SparkPlan): Unit =
    RealTimeModeAllowlist.checkAllowedPhysicalOperator(plan, throwException = true)
}

/** Keystate's operators in a logical plan. Relies on Spark looking for stateful operators by this:
  * it tracks their progress synchronously also in real-time mode, and does without adaptive
  * execution.
  */
private[keystate] trait StatefulPlanShim extends LogicalPlan {
  override def isStateful: Boolean = isStreaming
}
