package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.streaming.{OutputMode, TimeMode => SparkTimeMode}
import org.apache.spark.sql.types.NullType

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.operator.{InputRole, KeyedBatchExec, KeyedProcessExec}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, TimeMode}

/** Plans this package's nodes, in streams and in batch queries. */
private[keystate] object KeyedProcessStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case process: KeyedProcess => exec(process) :: Nil
    case partial: PartialAggregate => partial.exec(planLater(partial.child)) :: Nil
    case _ => Nil
  }

  private def exec(process: KeyedProcess): SparkPlan =
    if (process.left.isStreaming) ofStream(process) else ofBatch(process)

  private def ofBatch(process: KeyedProcess): KeyedBatchExec = {
    import process.{function, left, output, right, rows, second, spec}
    KeyedBatchExec(
      function,
      spec,
      output,
      rows.keys,
      rows.columns,
      rows.order,
      second,
      System.currentTimeMillis,
      planLater(left),
      planLater(right)
    )
  }

  private def ofStream(process: KeyedProcess): KeyedProcessExec = {
    import process.{function, left, output, right, rows, second, spec}
    // Spark makes it, so that this code does not name its parameters, which differ between
    // versions. `IncrementalExecution` fills in the missing ones.
    val ofBatch = TransformWithStateExec
      .generateSparkPlanForBatchQueries(
        keyDeserializer = NoExpression,
        valueDeserializer = NoExpression,
        groupingAttributes = rows.keys,
        dataAttributes = rows.columns,
        statefulProcessor = null,
        timeMode(process),
        // Only Spark's metadata uses this: in any mode the function decides what it emits.
        OutputMode.Update(),
        keyEncoder = null,
        outputObjAttr = NoAttribute,
        planLater(left),
        hasInitialState = false,
        initialStateGroupingAttrs = rows.keys,
        initialStateDataAttrs = Nil,
        initialStateDeserializer = NoExpression,
        initialState = planLater(right)
      )
      .asInstanceOf[TransformWithStateExec]
    val base = ofBatch.copy(isStreaming = true, stateInfo = None, batchTimestampMs = None)
    val read = second.map(_.copy(once = !right.isStreaming))
    new KeyedProcessExec(base, output, function, spec, rows.order, read)
  }

  // Placeholders for the parameters of Spark's own function in the base of Keystate's operator.
  private val NoExpression = Literal(null)
  private val NoAttribute = AttributeReference("none", NullType)()

  /** The time mode of an operator. Throws if its input does not have what the function needs. */
  def timeMode(process: KeyedProcess): SparkTimeMode = {
    val streaming = process.left.isStreaming
    val mode = timeMode(process.spec, streaming, hasWatermark(process))
    if (streaming && mode != SparkTimeMode.EventTime())
      process.spec.states.find(_.ttl.exists(_.eventTime)).foreach { state =>
        throw KeystateErrors.eventTimeTtlWithoutWatermark(state.name)
      }
    mode
  }

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

  private def hasWatermark(process: KeyedProcess): Boolean = {
    val second = Option.when(
      process.right.isStreaming && process.second.exists(_.role != InputRole.Broadcast)
    )(process.right)
    (process.left +: second.toSeq).exists(hasWatermark)
  }

  private def hasWatermark(plan: LogicalPlan): Boolean =
    plan.output.exists(_.metadata.contains(EventTimeWatermark.delayKey))
}
