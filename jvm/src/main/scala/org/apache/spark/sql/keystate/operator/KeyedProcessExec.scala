package org.apache.spark.sql.keystate.operator

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, StatefulOpClusteredDistribution}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  TransformWithStateExec, TransformWithStateOperatorProperties, TransformWithStateVariableInfo
}
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperatorCustomMetric, StatefulOperatorStateInfo, StatefulOperatorsUtils, WatermarkSupport
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan}
import org.apache.spark.sql.streaming.{StateOperatorProgress, TimeMode => SparkTimeMode}
import org.apache.spark.sql.types.{BinaryType, StructType}

import keystate.backend.StateFamily
import keystate.config.Settings
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.metadata.{
  OperatorRecord, RecordedStates, SparkStateSchema, StateChanges
}
import org.apache.spark.sql.keystate.metrics.OperatorReport
import org.apache.spark.sql.keystate.shim.TransformWithStateShim
import org.apache.spark.sql.keystate.spec.{
  OperatorSpec, SchemaEvolution, StateSpec, SystemColumnFamilies, TimeMode
}
import org.apache.spark.sql.keystate.store.StoreConfig

/** Runs a stream's function over its partition of the keys, with the state in Keystate's store.
  *
  * Relies on `IncrementalExecution`, which gives state info, watermarks and batch times only to
  * operators that it knows. So this class extends one of them. Spark matches it as
  * `TransformWithStateExec` and updates it through that case class's `copy`, which the shim
  * overrides to return this class again. Routing, execution and the state schema are this class's
  * own. Metadata files, progress and metrics are the base's. The base's parameters for its own
  * function, such as the encoders, are not used. `dataAttributes` are the child's columns that the
  * function sees.
  *
  * Spark makes a copy for nearly every rule, in every micro-batch. So construction must cost next
  * to nothing. Spark's operator for Python costs more to construct, so it is not the base.
  *
  * @param base
  *   the parameters of Spark's operator
  * @param function
  *   the user's function
  * @param order
  *   the sort order of a task's rows
  * @param second
  *   the purpose of the right child; in the base that child is the initial state
  */
private[keystate] class KeyedProcessExec(
    base: TransformWithStateExec,
    override val output: Seq[Attribute],
    val function: OperatorFunction,
    val spec: OperatorSpec,
    val order: Seq[SortOrder],
    val second: Option[SecondInput]
) extends TransformWithStateShim(base)
    with FunctionExec {
  import KeyedProcessExec._

  override protected def withBase(base: TransformWithStateExec): TransformWithStateExec = {
    val unread = base.initialState
    // Spark gives the operator its number.
    if (stateInfo.isEmpty) base.stateInfo.foreach(QueryOperators.check(_, session))
    new KeyedProcessExec(
      if (readsSecondIn(base.stateInfo)) base
      else base.copy(initialState = LocalTableScanExec(unread.output, Nil, None)),
      output,
      function,
      spec,
      order,
      second
    )
  }

  override def producedAttributes: AttributeSet = AttributeSet(output)

  /** The operator's name in checkpoints. */
  override def shortName: String =
    StatefulOperatorsUtils.TRANSFORM_WITH_STATE_IN_PYSPARK_EXEC_OP_NAME

  override protected def stringArgs: Iterator[Any] =
    Iterator(function, groupingAttributes, dataAttributes, output, timeMode, stateInfo)

  /** None: the base's metrics count Spark's own function handles. */
  override def customStatefulOperatorMetrics: Seq[StatefulOperatorCustomMetric] = Nil

  /** Whether the right child is read. A static input is read with one micro-batch only: after that
    * nothing may run its plan.
    */
  private def readsSecondIn(info: Option[StatefulOperatorStateInfo]): Boolean =
    second.exists { second =>
      !second.once ||
      info.forall(StaticInputs.reads(second.name, _, session.sessionState.newHadoopConf()))
    }

  override protected def readsSecond: Boolean = readsSecondIn(stateInfo)

  /** Keeps both children. The base drops the right one after the first micro-batch. */
  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan
  ): TransformWithStateExec = copy(child = newLeft, initialState = newRight)

  /** A stream's rows go to the subtask that owns their key group; without keys they are spread over
    * the subtasks.
    */
  override def requiredChildDistribution: Seq[Distribution] = {
    val rows =
      if (groupingAttributes.nonEmpty) byKey(groupingAttributes)
      else {
        val parallelism = getStateInfo.numPartitions
        val label = Routing.spreading(dataAttributes, parallelism)
        StatefulOpClusteredDistribution(Seq(label), parallelism)
      }
    Seq(rows, ofSecond)
  }

  override protected def byKey(keys: Seq[Attribute]): Distribution = {
    val parallelism = getStateInfo.numPartitions
    val label = Routing.routing(Routing.normalized(keys), parallelism, record.maxParallelism)
    StatefulOpClusteredDistribution(Seq(label), parallelism)
  }

  private def keyColumns: Seq[Attribute] = functionInputs.keys

  /** The checkpoint's record of this operator. */
  @transient private lazy val record: OperatorRecord =
    OperatorRecord.resolve(getStateInfo, spec, session)

  @transient private lazy val recorded: Seq[StateFamily] =
    RecordedStates.read(getStateInfo, checkpointIds.head, session.sessionState.newHadoopConf())

  private def purges = RecordedStates.purges(conf)

  @transient private lazy val states = {
    val kept = if (purges) Nil else RecordedStates.removed(recorded, spec)
    new SparkStateSchema(
      spec.states ++ kept.map(StateSpec.of).filterNot(_.isBroadcast),
      DataTypeUtils.fromAttributes(keyColumns)
    )
  }

  override def getColFamilySchemas(
      shouldBeNullable: Boolean
  ): Map[String, StateStoreColFamilySchema] = states.columnFamilies

  /** False: Spark's schema evolution is Avro's, and Avro has no form for some types. */
  override def supportsSchemaEvolution: Boolean = false

  override def getStateVariableInfos(): Map[String, TransformWithStateVariableInfo] =
    states.variables

  /** Spark calls this when a query plans its first micro-batch. Throws if the checkpoint does not
    * fit the function. Tasks check again, each at its own version.
    */
  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = {
    StoreConfig.check(conf)
    if (inRealTime) RealTimeChecks.ofInputs(function, second, order, conf)
    val changes = new StateChanges(recorded, spec, getStateInfo)
    val written = KeystateErrors.inOperator(changes.operator) {
      for (key <- SystemColumnFamilies.keyOf(recorded) if recorded.exists(RecordedStates.isByKey))
        SchemaEvolution.checkKey(key, DataTypeUtils.fromAttributes(keyColumns))
      spec.continuing(name => recorded.find(_.name == name))
      changes.check(Settings.ReplacedStates.of(StoreConfig.in(conf)) == "allow")
      states.write(getStateInfo, stateSchemaDirPath(), hadoopConf, batchId)
    }
    changes.renamed.foreach(warning => logWarning(warning))
    changes.note(purges)
    OperatorRecord.rename(getStateInfo, spec.name, hadoopConf)
    List(written)
  }

  /** Spark calls this at the same time. Its error for another time mode does not say what to do. */
  override def validateNewMetadata(old: OperatorStateMetadata, now: OperatorStateMetadata): Unit =
    (old, now) match {
      case (old: OperatorStateMetadataV2, now: OperatorStateMetadataV2) =>
        val before = TransformWithStateOperatorProperties.fromJson(old.operatorPropertiesJson)
        val after = TransformWithStateOperatorProperties.fromJson(now.operatorPropertiesJson)
        if (before.timeMode != after.timeMode && !SystemColumnFamilies.takesTimeMode(recorded))
          throw KeystateErrors.timeModeChanged(
            StateChanges.describe(getStateInfo, spec.name),
            getStateInfo.operatorId,
            TimeMode.recorded(before.timeMode).name,
            TimeMode.recorded(after.timeMode).name
          )
        // The base compares the time modes too.
        val taken = before.copy(timeMode = after.timeMode).json
        super.validateNewMetadata(old.copy(operatorPropertiesJson = taken), now)
      case _ => super.validateNewMetadata(old, now)
    }

  /** The features that ride on the subtasks. */
  @transient private lazy val reports: Seq[OperatorReport[StreamSubtask, _]] = StreamReports.of(
    spec,
    getStateInfo,
    keyColumns,
    pythonMetrics,
    inRealTime,
    batchTimestampMs.get,
    conf,
    session.sessionState.newHadoopConf()
  )

  /** Whether to run a micro-batch without new input: if a report wants it, or the watermark may make
    * a timer due. In processing time the base would run such batches for ever, so that no trigger
    * would end.
    */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    reports.exists(_.wantsBatch) ||
      (timeMode == SparkTimeMode.EventTime() && super.shouldRunAnotherBatch(newInputWatermark))

  /** The watermark passes on in any time mode, because the output may have the event time column in
    * any time mode. Relies on `StateStoreWriter`, whose method returns the watermark for the next
    * operators. The base gives them none in processing time.
    */
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] =
    Some(math.max(inputWatermarkMs - spec.outputDelay, 0))

  override protected def doExecute(): RDD[InternalRow] = {
    StoreConfig.check(conf)
    val checks = reports.flatMap(_.beforeCommit)
    if (checks.nonEmpty)
      BeforeCommit.put(checkpoint, getStateInfo.operatorId, getStateInfo.storeVersion) {
        checks.foreach(_.apply())
      }
    if (inRealTime) RealTimeChecks.ofOperatorsBelow(child)
    val keySchema =
      if (groupingAttributes.isEmpty) DummyKeySchema
      else DataTypeUtils.fromAttributes(keyColumns)
    val tasks = this.tasks()
    inputs()
      .mapPartitionsWithStateStore[InternalRow](
        getStateInfo,
        keySchema,
        DUMMY_VALUE_ROW_SCHEMA,
        NoPrefixKeyStateEncoderSpec(keySchema),
        session.sessionState,
        Some(session.streams.stateStoreCoordinator),
        useColumnFamilies = true,
        extraOptions = Map(
          Settings.MaxParallelism.key -> record.maxParallelism.toString,
          Settings.Parallelism.key -> getStateInfo.numPartitions.toString
        )
      )(processStream(tasks))
  }

  private def tasks(): OperatorTasks = {
    val byWatermark = timeMode == SparkTimeMode.EventTime()
    val inputs = functionInputs
    new OperatorTasks(
      function.runner(conf, pythonMetrics),
      spec,
      OperatorColumns(inputs.columns, inputs.keys, output),
      inputs.rowOrder,
      OperatorTasks.StoredState(
        getStateInfo,
        record.maxParallelism,
        checkpointIds,
        purges,
        second.filter(_.once && readsSecond).map(_.name)
      ),
      OperatorTasks.Times(
        batchTimestampMs,
        eventTimeWatermarkForLateEvents.filter(_ => byWatermark),
        eventTimeWatermarkForEviction.filter(_ => byWatermark)
      ),
      inputs.late(lateOf).map(_.filter(_ => byWatermark && !spec.rowHandling.lateRows)),
      inRealTime,
      broadcastElements(),
      new OperatorTasks.Metrics(
        metrics,
        Option.when(StatefulOperatorStateInfo.enableStateStoreCheckpointIds(conf))(
          checkpointInfoAccumulator
        ),
        reports.filter(_.isSent(sparkContext))
      )
    )
  }

  private def checkpoint = new Path(getStateInfo.checkpointLocation).getParent

  /** The condition for late rows, by the base's rule, which knows the left child only. */
  private def lateOf(columns: Seq[Attribute]) = WatermarkSupport.watermarkExpression(
    WatermarkSupport.findEventTimeColumn(
      columns,
      allowMultipleEventTimeColumns = !allowMultipleStatefulOperators
    ),
    eventTimeWatermarkForLateEvents
  )

  /** The ids of the partitions' version files that the micro-batch begins with. Each is None with
    * checkpoint format v1.
    */
  private lazy val checkpointIds: Seq[Option[String]] =
    getStateInfo.stateStoreCkptIds match {
      case Some(ids) => ids.toSeq.map(_.headOption)
      case None => Seq.fill(getStateInfo.numPartitions)(None)
    }

  /** Called on the query's own thread once the micro-batch is done. */
  override def getProgress(): StateOperatorProgress = {
    val progress = super.getProgress()
    // If Keystate does not write Spark's logs, this comes late: the batch is already committed.
    BeforeCommit.run(checkpoint, getStateInfo.storeVersion)
    for (report <- reports; (name, value) <- report.metrics(progress))
      progress.customMetrics.putIfAbsent(name, value)
    progress
  }
}

private[keystate] object KeyedProcessExec {

  /** The store's key schema if there are no key columns. Each state has its own, as in the base. */
  private val DummyKeySchema = new StructType().add("key", BinaryType)

  /** The work of a stream's task. It is made here because Spark cleans it in each micro-batch, and
    * for that parses the class that makes it. The operator's class is 14 times as large.
    */
  private def processStream(
      tasks: OperatorTasks
  ): (StateStore, Iterator[Seq[Iterator[InternalRow]]]) => Iterator[InternalRow] =
    (store, inputs) => tasks.processStream(store, inputs.next())
}
