package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Literal, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.streaming.{OutputMode, TimeMode => SparkTimeMode}
import org.apache.spark.sql.types.NullType

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.operator.{
  BroadcastSide,
  KeyedProcessExec,
  KeyedSide,
  OperatorFunction,
  RightSide
}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, TimeMode}

/** Plans [[KeyedProcess]], [[BroadcastProcess]] and [[TwoInputProcess]], in streams and in batch
  * queries.
  */
private[keystate] object KeyedProcessStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case KeyedProcess(function, keys, columns, output, spec, order, child) =>
      val none = LocalTableScanExec(Nil, Nil, None)
      exec(function, keys, columns, output, spec, order, child, none, None, hasWatermark(child)) ::
        Nil
    case BroadcastProcess(function, keys, columns, broadcast, output, spec, order, left, right) =>
      val side = BroadcastSide(broadcast, once = left.isStreaming && !right.isStreaming)
      val rows = planLater(right)
      exec(
        function,
        keys,
        columns,
        output,
        spec,
        order,
        left,
        rows,
        Some(side),
        hasWatermark(left)
      ) ::
        Nil
    case p: TwoInputProcess =>
      val side = KeyedSide(
        p.rightKeys,
        p.rightColumns,
        p.rightOrder,
        once = p.left.isStreaming && !p.right.isStreaming,
        p.rightIsFirst,
        p.merged,
        p.initial
      )
      exec(
        p.function,
        p.keys,
        p.columns,
        p.output,
        p.spec,
        p.order,
        p.left,
        planLater(p.right),
        Some(side),
        hasWatermark(p.left) || (p.right.isStreaming && hasWatermark(p.right))
      ) :: Nil
    case _ => Nil
  }

  private def exec(
      function: OperatorFunction,
      keys: Seq[Attribute],
      columns: Seq[Attribute],
      output: Seq[Attribute],
      spec: OperatorSpec,
      order: Seq[SortOrder],
      child: LogicalPlan,
      right: SparkPlan,
      side: Option[RightSide],
      watermark: Boolean
  ): KeyedProcessExec = {
    val streaming = child.isStreaming
    val mode = timeMode(spec, streaming, watermark)
    if (streaming && mode != SparkTimeMode.EventTime())
      spec.states.find(_.ttl.exists(_.eventTime)).foreach { state =>
        throw KeystateErrors.eventTimeTtlWithoutWatermark(state.name)
      }
    // Made by Spark, so that its parameters, which differ between versions, stand nowhere here. A
    // batch query has no checkpoint. In a stream `IncrementalExecution` fills in what is taken out.
    val ofBatch = TransformWithStateExec
      .generateSparkPlanForBatchQueries(
        keyDeserializer = NoExpression,
        valueDeserializer = NoExpression,
        groupingAttributes = keys,
        dataAttributes = columns,
        statefulProcessor = null,
        mode,
        // Only Spark's metadata uses this: whatever the mode, the function decides what it emits.
        OutputMode.Update(),
        keyEncoder = null,
        outputObjAttr = NoAttribute,
        planLater(child),
        hasInitialState = false,
        initialStateGroupingAttrs = keys,
        initialStateDataAttrs = Nil,
        initialStateDeserializer = NoExpression,
        initialState = right
      )
      .asInstanceOf[TransformWithStateExec]
    val base =
      if (!streaming) ofBatch
      else ofBatch.copy(isStreaming = true, stateInfo = None, batchTimestampMs = None)
    new KeyedProcessExec(base, output, function, spec, order, side)
  }

  // Stand in for what Spark's own function would have in the operator that Keystate's extends.
  private val NoExpression = Literal(null)
  private val NoAttribute = AttributeReference("none", NullType)()

  private def timeMode(spec: OperatorSpec, streaming: Boolean, watermark: Boolean): SparkTimeMode =
    spec.timeMode match {
      case TimeMode.Auto if watermark => SparkTimeMode.EventTime()
      case TimeMode.Auto | TimeMode.NoTime => SparkTimeMode.None()
      case TimeMode.EventTime if watermark || !streaming => SparkTimeMode.EventTime()
      case TimeMode.EventTime =>
        throw KeystateErrors.eventTimeWithoutWatermark(spec.name)
      case TimeMode.ProcessingTime => SparkTimeMode.ProcessingTime()
      case TimeMode.AsBefore => throw new IllegalStateException("a query has no time mode before")
    }

  private def hasWatermark(plan: LogicalPlan): Boolean =
    plan.output.exists(_.metadata.contains(EventTimeWatermark.delayKey))
}
