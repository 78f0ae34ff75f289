package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec

/** From 4.2 on Spark's `transformWithState` refuses a provider by its class name, although the
  * operator needs only the `StateStore` contract.
  */
private[keystate] object ProviderCheck {

  /** The plan without Spark's check that the provider is its own. */
  def without(plan: SparkPlan): SparkPlan = plan.transformUp {
    case t: TransformWithStateExec if isPlain(t, classOf[TransformWithStateExec]) =>
      new TransformWithStateOnKeystate(t)
    case t: TransformWithStateInPySparkExec
        if isPlain(t, classOf[TransformWithStateInPySparkExec]) =>
      new TransformWithStateInPySparkOnKeystate(
        t.functionExpr,
        t.groupingAttributes,
        t.output,
        t.outputMode,
        t.timeMode,
        t.stateInfo,
        t.batchTimestampMs,
        t.prevBatchTimestampMs,
        t.eventTimeWatermarkForLateEvents,
        t.eventTimeWatermarkForEviction,
        t.userFacingDataType,
        t.child,
        t.isStreaming,
        t.hasInitialState,
        t.initialState,
        t.initialStateGroupingAttrs,
        t.initialStateSchema
      )
  }

  private def isPlain(plan: SparkPlan, spark: Class[_]): Boolean = plan.getClass == spark
}
