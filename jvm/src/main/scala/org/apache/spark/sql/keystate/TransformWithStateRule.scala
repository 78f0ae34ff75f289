package org.apache.spark.sql.keystate

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark.UserFacingDataType
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperator,
  StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessor, TimeMode}
import org.apache.spark.sql.types.StructType

import keystate.settings.Settings

/** Lets Spark's own `transformWithState` run on our provider, which it refuses by class name although
  * it needs nothing but the `StateStore` contract.
  *
  * `IncrementalExecution` puts its own strategies before those of an extension, so the planned nodes
  * are replaced: columnar rules come after it has filled in state info, watermarks and batch times.
  * A query that could not be rescaled fails here, whichever operators it has.
  */
private[keystate] object TransformWithStateRule extends Rule[SparkPlan] {

  val asColumnarRule: ColumnarRule = new ColumnarRule {
    override def preColumnarTransitions: Rule[SparkPlan] = TransformWithStateRule
  }

  override def apply(plan: SparkPlan): SparkPlan =
    if (plan.conf.stateStoreProviderClass != KeystateErrors.ProviderClass) plan
    else {
      val stateful = plan.collectFirst { case operator: StatefulOperator => operator }
      if (stateful.nonEmpty) Settings.check(StoreConfig.in(plan.conf))
      // A batch of a query that may not go on is not begun.
      stateful
        .flatMap(_.stateInfo)
        .map(_.checkpointLocation)
        .filter(_.nonEmpty)
        .foreach(state => CheckpointOwner.check(new Path(state).getParent))
      plan.transformUp {
        case t: TransformWithStateExec if isPlain(t, classOf[TransformWithStateExec]) =>
          new TransformWithStateOnKeystate(
            t.keyDeserializer,
            t.valueDeserializer,
            t.groupingAttributes,
            t.dataAttributes,
            t.statefulProcessor,
            t.timeMode,
            t.outputMode,
            t.keyEncoder,
            t.outputObjAttr,
            t.stateInfo,
            t.batchTimestampMs,
            t.prevBatchTimestampMs,
            t.eventTimeWatermarkForLateEvents,
            t.eventTimeWatermarkForEviction,
            t.child,
            t.isStreaming,
            t.hasInitialState,
            t.initialStateGroupingAttrs,
            t.initialStateDataAttrs,
            t.initialStateDeserializer,
            t.initialState
          )
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
    }

  private def isPlain(plan: SparkPlan, spark: Class[_]): Boolean = plan.getClass == spark
}

/** Differs in nothing but that it does not look at the provider's name. Tree transformations make new
  * nodes by `copy`.
  */
private[keystate] final class TransformWithStateOnKeystate(
    keyDeserializer: Expression,
    valueDeserializer: Expression,
    groupingAttributes: Seq[Attribute],
    dataAttributes: Seq[Attribute],
    statefulProcessor: StatefulProcessor[Any, Any, Any],
    timeMode: TimeMode,
    outputMode: OutputMode,
    keyEncoder: ExpressionEncoder[Any],
    outputObjAttr: Attribute,
    stateInfo: Option[StatefulOperatorStateInfo],
    batchTimestampMs: Option[Long],
    prevBatchTimestampMs: Option[Long],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    child: SparkPlan,
    isStreaming: Boolean,
    hasInitialState: Boolean,
    initialStateGroupingAttrs: Seq[Attribute],
    initialStateDataAttrs: Seq[Attribute],
    initialStateDeserializer: Expression,
    initialState: SparkPlan
) extends TransformWithStateExec(
      keyDeserializer,
      valueDeserializer,
      groupingAttributes,
      dataAttributes,
      statefulProcessor,
      timeMode,
      outputMode,
      keyEncoder,
      outputObjAttr,
      stateInfo,
      batchTimestampMs,
      prevBatchTimestampMs,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      child,
      isStreaming,
      hasInitialState,
      initialStateGroupingAttrs,
      initialStateDataAttrs,
      initialStateDeserializer,
      initialState
    ) {
  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit = ()

  // It must not equal the node that it replaces, for a parent would keep that one then.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[TransformWithStateOnKeystate]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode

  override def copy(
      keyDeserializer: Expression,
      valueDeserializer: Expression,
      groupingAttributes: Seq[Attribute],
      dataAttributes: Seq[Attribute],
      statefulProcessor: StatefulProcessor[Any, Any, Any],
      timeMode: TimeMode,
      outputMode: OutputMode,
      keyEncoder: ExpressionEncoder[Any],
      outputObjAttr: Attribute,
      stateInfo: Option[StatefulOperatorStateInfo],
      batchTimestampMs: Option[Long],
      prevBatchTimestampMs: Option[Long],
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      child: SparkPlan,
      isStreaming: Boolean,
      hasInitialState: Boolean,
      initialStateGroupingAttrs: Seq[Attribute],
      initialStateDataAttrs: Seq[Attribute],
      initialStateDeserializer: Expression,
      initialState: SparkPlan
  ): TransformWithStateExec = new TransformWithStateOnKeystate(
    keyDeserializer,
    valueDeserializer,
    groupingAttributes,
    dataAttributes,
    statefulProcessor,
    timeMode,
    outputMode,
    keyEncoder,
    outputObjAttr,
    stateInfo,
    batchTimestampMs,
    prevBatchTimestampMs,
    eventTimeWatermarkForLateEvents,
    eventTimeWatermarkForEviction,
    child,
    isStreaming,
    hasInitialState,
    initialStateGroupingAttrs,
    initialStateDataAttrs,
    initialStateDeserializer,
    initialState
  )
}

/** Likewise for Python's, of both kinds. */
private[keystate] final class TransformWithStateInPySparkOnKeystate(
    functionExpr: Expression,
    groupingAttributes: Seq[Attribute],
    output: Seq[Attribute],
    outputMode: OutputMode,
    timeMode: TimeMode,
    stateInfo: Option[StatefulOperatorStateInfo],
    batchTimestampMs: Option[Long],
    prevBatchTimestampMs: Option[Long],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    userFacingDataType: UserFacingDataType.Value,
    child: SparkPlan,
    isStreaming: Boolean,
    hasInitialState: Boolean,
    initialState: SparkPlan,
    initialStateGroupingAttrs: Seq[Attribute],
    initialStateSchema: StructType
) extends TransformWithStateInPySparkExec(
      functionExpr,
      groupingAttributes,
      output,
      outputMode,
      timeMode,
      stateInfo,
      batchTimestampMs,
      prevBatchTimestampMs,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      userFacingDataType,
      child,
      isStreaming,
      hasInitialState,
      initialState,
      initialStateGroupingAttrs,
      initialStateSchema
    ) {
  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit = ()

  override def canEqual(other: Any): Boolean =
    other.isInstanceOf[TransformWithStateInPySparkOnKeystate]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode

  override def copy(
      functionExpr: Expression,
      groupingAttributes: Seq[Attribute],
      output: Seq[Attribute],
      outputMode: OutputMode,
      timeMode: TimeMode,
      stateInfo: Option[StatefulOperatorStateInfo],
      batchTimestampMs: Option[Long],
      prevBatchTimestampMs: Option[Long],
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      userFacingDataType: UserFacingDataType.Value,
      child: SparkPlan,
      isStreaming: Boolean,
      hasInitialState: Boolean,
      initialState: SparkPlan,
      initialStateGroupingAttrs: Seq[Attribute],
      initialStateSchema: StructType
  ): TransformWithStateInPySparkExec = new TransformWithStateInPySparkOnKeystate(
    functionExpr,
    groupingAttributes,
    output,
    outputMode,
    timeMode,
    stateInfo,
    batchTimestampMs,
    prevBatchTimestampMs,
    eventTimeWatermarkForLateEvents,
    eventTimeWatermarkForEviction,
    userFacingDataType,
    child,
    isStreaming,
    hasInitialState,
    initialState,
    initialStateGroupingAttrs,
    initialStateSchema
  )
}
