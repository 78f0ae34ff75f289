package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessor, TimeMode}

/** Spark 4.1's `TransformWithStateExec` for subclasses that need not know its parameters. They have
  * a plain operator, the base, as their first parameter, and say in `withBase` how to make one of
  * them again.
  *
  * Relies on the case class's parameters, and on the three ways in which Spark makes a changed
  * operator: `copy`, which also serves new children, and `makeCopy` and `clone`, which by themselves
  * look for a constructor with the case class's parameters. All three are done on the base.
  *
  * @param base
  *   not in tasks: there it is null
  */
private[keystate] abstract class TransformWithStateShim(
    @transient private val base: TransformWithStateExec
) extends TransformWithStateExec(
      base.keyDeserializer,
      base.valueDeserializer,
      base.groupingAttributes,
      base.dataAttributes,
      base.statefulProcessor,
      base.timeMode,
      base.outputMode,
      base.keyEncoder,
      base.outputObjAttr,
      base.stateInfo,
      base.batchTimestampMs,
      base.eventTimeWatermarkForLateEvents,
      base.eventTimeWatermarkForEviction,
      base.child,
      base.isStreaming,
      base.hasInitialState,
      base.initialStateGroupingAttrs,
      base.initialStateDataAttrs,
      base.initialStateDeserializer,
      base.initialState
    ) {

  /** This operator with other parameters of Spark's. */
  protected def withBase(base: TransformWithStateExec): TransformWithStateExec

  /** Whether rows come while a batch lasts. */
  protected def inRealTime: Boolean = false

  override def makeCopy(newArgs: Array[AnyRef]): SparkPlan = again(base.makeCopy(newArgs))

  override def clone(): SparkPlan = again(base.clone())

  private def again(base: SparkPlan): SparkPlan = {
    val made = withBase(base.asInstanceOf[TransformWithStateExec])
    made.copyTagsFrom(this)
    made
  }

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
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      child: SparkPlan,
      isStreaming: Boolean,
      hasInitialState: Boolean,
      initialStateGroupingAttrs: Seq[Attribute],
      initialStateDataAttrs: Seq[Attribute],
      initialStateDeserializer: Expression,
      initialState: SparkPlan
  ): TransformWithStateExec = withBase(
    new TransformWithStateExec(
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
  )
}
