package org.apache.spark.sql.keystate

import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark.UserFacingDataType
import org.apache.spark.sql.catalyst.plans.physical.{
  BroadcastDistribution,
  ClusteredDistribution,
  Distribution,
  IdentityBroadcastMode,
  StatefulOpClusteredDistribution,
  UnspecifiedDistribution
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan}
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateVariableInfo
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streaming.{OutputMode, StateOperatorProgress, TimeMode}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.{CollectionAccumulator, CompletionIterator}

import keystate.backend.{KeyedStateBackend, StateFamily}
import keystate.backend.heap.HeapStateBackend
import keystate.ttl.Expiry

/** Runs a keyed function over its partition of the keys, with the state in our own store.
  *
  * `IncrementalExecution` hands state info, watermarks and batch times only to operators it knows,
  * so this extends one of them: matched as `TransformWithStateInPySparkExec`, it is updated through
  * the case class's `copy`, which we override to stay what we are. Routing, execution and the state
  * schema are ours; metadata files, progress and metrics are the base's.
  *
  * @param function
  *   the user's; `functionExpr` is its `udf`
  * @param columns
  *   the child's columns that the function sees
  * @param broadcast
  *   what the right child, which has the base's initial state otherwise, broadcasts
  */
private[keystate] class KeyedProcessExec(
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
    initialStateSchema: StructType,
    val function: KeyedFunction,
    val columns: Seq[Attribute],
    val spec: OperatorSpec,
    val broadcast: Option[BroadcastSide]
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
  ): TransformWithStateInPySparkExec = new KeyedProcessExec(
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
    if (broadcastsIn(stateInfo)) initialState
    else LocalTableScanExec(initialState.output, Nil, None),
    initialStateGroupingAttrs,
    initialStateSchema,
    function,
    columns,
    spec,
    broadcast
  )

  /** A static input is broadcast with the first batch only: after it nothing may run its plan. */
  private def broadcastsIn(info: Option[StatefulOperatorStateInfo]): Boolean =
    broadcast.exists(!_.once || info.forall(_.storeVersion == 0))

  private def broadcasts: Boolean = broadcastsIn(stateInfo)

  /** What TreeNode's reflective copying needs beyond the case class's own parameters. */
  override protected def otherCopyArgs: Seq[AnyRef] = Seq(function, columns, spec, broadcast)

  /** Keeps both children; the base drops the right one after the first batch. */
  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan
  ): TransformWithStateInPySparkExec = copy(child = newLeft, initialState = newRight)

  private def toAllSubtasks = BroadcastDistribution(IdentityBroadcastMode)

  private def normalizedKeys = KeyReader.normalized(groupingAttributes)

  /** A stream's rows go to the subtask that owns their key group, or without keys anywhere. A batch keeps no state, so any
    * partitioning by key will do, one that is there already too.
    */
  override def requiredChildDistribution: Seq[Distribution] = {
    val rows =
      if (isStreaming && groupingAttributes.isEmpty) {
        val parallelism = getStateInfo.numPartitions
        StatefulOpClusteredDistribution(Seq(KeyReader.spreading(columns, parallelism)), parallelism)
      } else if (groupingAttributes.isEmpty) {
        UnspecifiedDistribution
      } else if (isStreaming) {
        val parallelism = getStateInfo.numPartitions
        val label = KeyReader.routing(normalizedKeys, parallelism, record.maxParallelism)
        StatefulOpClusteredDistribution(Seq(label), parallelism)
      } else {
        ClusteredDistribution(groupingAttributes)
      }
    Seq(rows, if (broadcasts) toAllSubtasks else UnspecifiedDistribution)
  }

  /** A function finds its states for every row: rows need not come sorted by key. */
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(Nil, Nil)

  /** What the checkpoint says of this operator. */
  @transient private lazy val record: OperatorRecord =
    OperatorRecord.resolve(getStateInfo, spec, session)

  @transient private lazy val recorded: Seq[StateFamily] =
    RecordedStates.read(getStateInfo, checkpointIds.head, session.sessionState.newHadoopConf())

  private val purges = isStreaming && RecordedStates.purges(conf)

  @transient private lazy val states = {
    val kept = if (purges) Nil else RecordedStates.removed(recorded, spec)
    new OperatorSchema(
      spec.states ++ kept.map(StateSpec.of).filter(_.kind != StateKind.Broadcast),
      DataTypeUtils.fromAttributes(groupingAttributes)
    )
  }

  override def getColFamilySchemas(
      shouldBeNullable: Boolean
  ): Map[String, StateStoreColFamilySchema] = states.columnFamilies

  /** Spark's evolution is Avro's, which has no form for every type. */
  override def supportsSchemaEvolution: Boolean = false

  override def getStateVariableInfos(): Map[String, TransformWithStateVariableInfo] =
    states.variables

  /** Called when a query plans its first batch: refuses what the checkpoint does not fit. Tasks look
    * again, each at its own version.
    */
  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = {
    checkProvider()
    RescaleOnRestart.check(getStateInfo.queryRunId)
    spec.continuing(name => recorded.find(_.name == name))
    List(states.write(getStateInfo, stateSchemaDirPath(), hadoopConf, batchId))
  }

  private def checkProvider(): Unit = {
    val provider = conf.stateStoreProviderClass
    if (provider != KeystateErrors.ProviderClass) throw KeystateErrors.providerMissing(provider)
    StoreConfig.checkBackend(conf)
  }

  /** The first processing time timer that is left after this batch. */
  private lazy val nextTimer = {
    val time = new EarliestTime
    session.sparkContext.register(time)
    time
  }

  /** Without new input a batch is worth running when a timer is due, or may be by the watermark. The
    * base runs one after the other for ever in processing time, so that no trigger would end.
    */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    nextTimer.value <= System.currentTimeMillis ||
      (timeMode == TimeMode.EventTime() && super.shouldRunAnotherBatch(newInputWatermark))

  /** The function's own metrics in this batch. */
  private lazy val functionMetrics = {
    val values = new FunctionMetrics
    session.sparkContext.register(values)
    values
  }

  override protected def doExecute(): RDD[InternalRow] = {
    metrics
    nextTimer
    if (spec.metrics) functionMetrics
    if (checkBroadcast) digests
    if (isStreaming) {
      checkProvider()
      val maxParallelism = record.maxParallelism
      val keySchema =
        if (groupingAttributes.isEmpty) schemaForKeyRow
        else DataTypeUtils.fromAttributes(groupingAttributes)
      val elements = broadcastElements()
      child
        .execute()
        .mapPartitionsWithStateStore[InternalRow](
          getStateInfo,
          keySchema,
          schemaForValueRow,
          NoPrefixKeyStateEncoderSpec(keySchema),
          session.sessionState,
          Some(session.streams.stateStoreCoordinator),
          useColumnFamilies = true,
          extraOptions = Map(
            StoreConfig.MaxParallelism -> maxParallelism.toString,
            StoreConfig.Parallelism -> getStateInfo.numPartitions.toString
          )
        )((store, rows) => processStream(store, rows, elements, maxParallelism))
    } else {
      val maxParallelism = spec.maxParallelism.getOrElse(record.maxParallelism)
      val elements = broadcastElements()
      child.execute().mapPartitions(rows => processBatch(rows, elements, maxParallelism))
    }
  }

  private type Elements = Option[Broadcast[Array[InternalRow]]]

  /** Collected once for an execution, in the order of the right child's partitions: every subtask,
    * and every attempt of a task, sees the same.
    */
  private def broadcastElements(): Elements =
    Option.when(broadcasts)(initialState.executeBroadcast[Array[InternalRow]]())

  private val broadcastOutput = initialState.output

  private def input(elements: Elements): Option[BroadcastInput] =
    elements.map(rows => new BroadcastInput(broadcast.get.columns, broadcastOutput, rows.value))

  /** Of the partitions' version files in the state that the batch begins with. */
  private lazy val checkpointIds: Seq[Option[String]] =
    getStateInfo.stateStoreCkptIds match {
      case Some(ids) => ids.toSeq.map(_.headOption)
      case None => Seq.fill(getStateInfo.numPartitions)(None)
    }

  private val runner = function.runner(conf, pythonMetrics)

  /** Made in a task. */
  private def context(
      spec: OperatorSpec,
      backend: KeyedStateBackend,
      families: Seq[Int],
      maxParallelism: Int,
      parallelism: Int,
      subtask: SubtaskScope,
      expiries: Map[String, Expiry] = Map.empty
  ): KeyedContext = new KeyedContext(
    spec,
    child.output,
    columns,
    groupingAttributes,
    output,
    backend,
    families,
    maxParallelism,
    parallelism,
    isStreaming,
    getStateInfo.storeVersion,
    getStateInfo.queryRunId.toString,
    batchTimestampMs,
    expiries,
    subtask
  )

  private def processStream(
      store: StateStore,
      rows: Iterator[InternalRow],
      elements: Elements,
      maxParallelism: Int
  ): Iterator[InternalRow] = {
    val own = store match {
      case own: KeyGroupStateStore => own
      case other => throw KeystateErrors.providerMissing(other.getClass.getName)
    }
    val started = System.nanoTime
    val onTime = watermarkPredicateForDataForLateEvents match {
      case Some(late) if timeMode == TimeMode.EventTime() =>
        applyRemovingRowsOlderThanWatermark(rows, late)
      case _ => rows
    }
    val spec = this.spec.continuing(own.family)
    if (purges) RecordedStates.removed(own.families, spec).foreach(own.dropFamily)
    val watermark = eventTimeWatermarkForEviction.filter(_ => timeMode == TimeMode.EventTime())
    val expiries = StateTtl.expiries(spec, batchTimestampMs, watermark, own.family)
    val families = spec.families.map { f =>
      val properties = f.properties ++ expiries.get(f.name).toSeq.flatMap(_.properties)
      own.registerFamily(f.name, f.layout, properties).id
    }
    val task = context(
      spec,
      own.backend,
      families,
      maxParallelism,
      getStateInfo.numPartitions,
      own.provider.subtask,
      expiries
    )
    task.broadcastInput = input(elements)
    task.readOperatorStates = () => own.operatorStates(checkpointIds)
    task.watermark = watermark
    val sweeps = own.sweeps(task)
    val due =
      task.timers.fold(mutable.Queue.empty[Timer])(_.due(task.watermark, batchTimestampMs))
    val run = runner.run(sweeps.counting(onTime), due, task)
    CompletionIterator[InternalRow, Iterator[InternalRow]](
      counted(run.output), {
        longMetric("numUpdatedStateRows") += run.updated
        longMetric("numRemovedStateRows") += run.removed
        if (checkBroadcast) noteDigests(task)
        longMetric("allUpdatesTimeMs") += NANOSECONDS.toMillis(System.nanoTime - started)
        sweeps.run(run.updated + run.removed)
        task.timers.flatMap(_.next(TimerChannel.ProcessingTime)).foreach(nextTimer.add)
        if (spec.metrics) functionMetrics.add(task.task.partitionId() -> task.metrics)
        longMetric("commitTimeMs") += timeTakenMs { store.commit(); () }
        setStoreMetrics(store)
        setOperatorMetrics()
      }
    )
  }

  /** A batch's state lives as long as its task. */
  private def processBatch(
      rows: Iterator[InternalRow],
      elements: Elements,
      maxParallelism: Int
  ): Iterator[InternalRow] = {
    val backend = new HeapStateBackend(maxParallelism)
    spec.families.foreach(backend.register)
    val parallelism = TaskContext.get().numPartitions()
    val subtask = new SubtaskScope
    TaskContext.get().addTaskCompletionListener[Unit](_ => subtask.close())
    val task = context(spec, backend, spec.families.map(_.id), maxParallelism, parallelism, subtask)

    task.broadcastInput = input(elements)

    // When the input has ended all time has passed: timers fire until there are none. A Python worker
    // has let them fire already.
    def timerPasses: Iterator[InternalRow] = {
      task.watermark = Some(Long.MaxValue)
      task.broadcastInput = None
      val due =
        task.timers.fold(mutable.Queue.empty[Timer])(_.due(task.watermark, task.watermark))
      if (due.isEmpty) Iterator.empty
      else runner.run(Iterator.empty, due, task).output ++ timerPasses
    }
    counted(runner.run(rows, mutable.Queue.empty, task).output ++ timerPasses)
  }

  private val checkBroadcast =
    spec.broadcast.nonEmpty && conf.getConfString(BroadcastAgreement.Check, "false").toBoolean

  /** What the subtasks made of the broadcast states in this batch. */
  private lazy val digests = {
    val accumulator = new CollectionAccumulator[BroadcastAgreement.Digest]
    session.sparkContext.register(accumulator)
    accumulator
  }

  private def noteDigests(task: KeyedContext): Unit = for {
    _ <- task.broadcastInput.filter(_.rows.nonEmpty)
    channel <- task.broadcastStates.get.channels
  } digests.add(
    BroadcastAgreement.Digest(channel.spec.name, task.task.partitionId(), channel.digest)
  )

  /** Called on the query's own thread once the batch is done. */
  override def getProgress(): StateOperatorProgress = {
    if (checkBroadcast) {
      BroadcastAgreement.check(spec.name, getStateInfo.storeVersion, digests.value.asScala.toSeq)
    }
    val progress = super.getProgress()
    if (spec.metrics) {
      functionMetrics.total.all.foreach { case (name, value) =>
        progress.customMetrics.putIfAbsent(name, value)
      }
    }
    progress
  }

  private def counted(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val numOutputRows = longMetric("numOutputRows")
    rows.map { row =>
      numOutputRows += 1
      row
    }
  }
}
