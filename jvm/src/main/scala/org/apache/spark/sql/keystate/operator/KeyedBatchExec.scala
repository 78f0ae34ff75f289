package org.apache.spark.sql.keystate.operator

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{
  ClusteredDistribution, Distribution, UnspecifiedDistribution
}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetrics
import org.apache.spark.sql.execution.python.PythonSQLMetrics
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo

import keystate.config.Settings
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.metadata.OperatorRecord
import org.apache.spark.sql.keystate.spec.OperatorSpec
import org.apache.spark.sql.keystate.store.StoreConfig

/** Runs a function over rows that are no stream: in a batch query, or in a stream's plan for a
  * table that is joined, broadcast or read as initial state. Its state lasts as long as its tasks.
  *
  * Relies on Spark giving a number, metadata and commits to each `StateStoreWriter` in a stream's
  * plan. So this must not be one.
  *
  * @param processingTime
  *   in ms
  */
private[keystate] final case class KeyedBatchExec(
    function: OperatorFunction,
    spec: OperatorSpec,
    output: Seq[Attribute],
    groupingAttributes: Seq[Attribute],
    dataAttributes: Seq[Attribute],
    order: Seq[SortOrder],
    second: Option[SecondInput],
    processingTime: Long,
    left: SparkPlan,
    right: SparkPlan
) extends FunctionExec
    with PythonSQLMetrics {

  override def nodeName: String = "KeyedProcess"

  override def producedAttributes: AttributeSet = AttributeSet(output)

  override protected def stringArgs: Iterator[Any] =
    Iterator(function, groupingAttributes, dataAttributes, output)

  override lazy val metrics = pythonMetrics ++ Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows")
  )

  override protected def readsSecond: Boolean = second.nonEmpty

  /** No state is kept, so any partitioning by key will do, also an existing one. */
  override protected def byKey(keys: Seq[Attribute]): Distribution = ClusteredDistribution(keys)

  override def requiredChildDistribution: Seq[Distribution] = Seq(
    if (groupingAttributes.isEmpty) UnspecifiedDistribution else byKey(groupingAttributes),
    ofSecond
  )

  override protected def doExecute(): RDD[InternalRow] = {
    Settings.check(StoreConfig.in(conf))
    val partitions = inputs()
    val parallelism = partitions.getNumPartitions
    val tasks = this.tasks()
    partitions.mapPartitionsWithIndexInternal((index, inputs) =>
      tasks.processBatch(index, parallelism, inputs.next())
    )
  }

  private def tasks(): OperatorTasks = {
    val inputs = functionInputs
    // There is no checkpoint: the tasks ask for the run and the number of the batch.
    val info =
      StatefulOperatorStateInfo("", UUID.randomUUID, 0, 0, conf.numShufflePartitions, None)
    val maxParallelism = OperatorRecord
      .wanted(spec, conf)
      .getOrElse(KeyGroups.defaultMaxParallelism(conf.numShufflePartitions))
    new OperatorTasks(
      function.runner(conf, pythonMetrics),
      spec,
      OperatorColumns(inputs.columns, inputs.keys, output),
      inputs.rowOrder,
      OperatorTasks.StoredState(info, maxParallelism, Nil, purges = false),
      OperatorTasks.Times(Some(processingTime), None, None),
      inputs.columns.map(_ => None),
      realTime = false,
      broadcastElements(),
      new OperatorTasks.Metrics(metrics)
    )
  }

  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan
  ): KeyedBatchExec = copy(left = newLeft, right = newRight)
}
