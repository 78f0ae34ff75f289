package org.apache.spark.sql.keystate.jvm.testing

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, Literal, Murmur3Hash, Pmod, SortOrder, UnsafeProjection
}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperatorStateInfo, WatermarkSupport
}
import org.apache.spark.sql.streaming.{TimeMode => SparkTimeMode}
import org.apache.spark.sql.types.StructType

import keystate.checkpoint.OperatorState
import keystate.errors.KeystateErrors
import keystate.keygroup.KeyGroups
import keystate.{OutputTag, TimeDomain}
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.expression.Aggregation
import org.apache.spark.sql.keystate.jvm.{JvmFunction, Outputs, SideOutputs}
import org.apache.spark.sql.keystate.operator.{
  BroadcastInput, FunctionInputs, InputColumns, InputReader, InputRole, OperatorColumns,
  OperatorTasks, SecondInput, StaticInputs
}
import org.apache.spark.sql.keystate.plan.{KeyedProcess, KeyedProcessStrategy}
import org.apache.spark.sql.keystate.spec.{SchemaEvolution, SystemColumnFamilies}

/** An operator that a function makes of Datasets, with all of its subtasks, without a query. Each
  * call that processes something is a micro-batch. It keeps in memory what a query stores.
  *
  * @param kind
  *   the inputs that the operator must have
  * @param inputs
  *   the streams of the test's elements
  * @param build
  *   makes the Dataset of the function's results, as in a query
  * @param tags
  *   the side outputs that are read
  */
final class TestedOperator[OUT](
    kind: TestedInputs,
    inputs: Seq[TestedInput[_]],
    build: () => Dataset[OUT],
    parallelism: Int,
    maxParallelism: Int,
    tags: Seq[OutputTag[_]],
    backend: String
) extends AutoCloseable {
  private var process: KeyedProcess = _
  private var computed: Option[Project] = None // what is computed of the rows of aggregates
  private var read: FunctionInputs = _
  private var static: Option[SecondInput] = None // the input that is a Dataset of a batch
  private var staticsRead = Set.empty[String] // the record of such inputs; see StaticInputs
  private var byWatermark = false
  private var outputs: Seq[(String, ExpressionEncoder.Deserializer[Any])] = _
  private var subtaskOf: Seq[InternalRow => Int] = _
  prepare(build)
  private val groups = groupsOf(process)
  private val subtasks = (0 until parallelism).map(new TestedSubtask(_, groups, backend))

  private var keyOfStates: Option[StructType] = None // of those that were stored, if there are any
  private var batch = 0L
  private var watermark = 0L
  private var clock = 0L

  /** In ms. */
  def currentWatermark: Long = watermark
  def currentProcessingTime: Long = clock

  private def prepare(build: () => Dataset[OUT]): Unit = {
    val built = build()
    val main = "main" -> decoder(ObjectCodec.expression(built.encoder))
    val side = tags.map(tag => tag.id -> decoder(Outputs.Side(tag).encoder))
    val plan =
      if (tags.isEmpty) built.queryExecution.analyzed
      else SideOutputs.all(built, tags).queryExecution.analyzed
    def isRun(one: KeyedProcess) = kind.are(one) && readsAll(one)
    process = plan match {
      case one: KeyedProcess if isRun(one) => one
      case Project(_, one: KeyedProcess) if isAggregation(one) && isRun(one) => one
      case other =>
        throw KeystateErrors.declaration(
          s"This harness runs one operator of ${kind.told}: it takes what process, flatMap, a " +
            s"window and so on return, not a Dataset of ${other.nodeName}."
        )
    }
    computed = Some(plan).collect { case above: Project => above }
    val second = process.second.map(_.copy(once = process.left.isStreaming && !hasSecondStream))
    static = second.filter(_.once)
    read = FunctionInputs(
      InputColumns(process.left.output, process.rows.columns, process.rows.keys),
      process.rows.order,
      second.filter(_.isKeyed).map(process.right.output -> _)
    )
    byWatermark = KeyedProcessStrategy.timeMode(process) == SparkTimeMode.EventTime()
    outputs = main +: side
    subtaskOf = read.columns.map(routing)
  }

  private def isAggregation(process: KeyedProcess) = process.function.isInstanceOf[Aggregation]

  private def hasSecondStream = process.right.isStreaming

  private def readsAll(process: KeyedProcess) = {
    val leaves = process.collectLeaves()
    inputs.forall(input => leaves.exists(input.is))
  }

  private def groupsOf(process: KeyedProcess) =
    process.spec.maxParallelism.getOrElse(maxParallelism)

  private def decoder(encoder: ExpressionEncoder[Any]) =
    ObjectCodec.bound(encoder).createDeserializer()

  /** Runs a micro-batch.
    *
    * @param elements
    *   the elements of each input
    * @param timestamp
    *   if present, the event time of the elements in ms, instead of the value of their column
    * @return
    *   the results, each with the index of its output: 0 for the main output, then the side outputs
    */
  def run(
      elements: Seq[Seq[Any]],
      timestamp: Option[Long] = None,
      watermark: Long = this.watermark,
      clock: Long = this.clock
  ): Seq[(Int, Any)] = {
    if (watermark < this.watermark || clock < this.clock)
      throw KeystateErrors.declaration(
        s"Clocks do not go back: from ${this.watermark} and ${this.clock} to $watermark and $clock."
      )
    val times = OperatorTasks.Times(
      Some(clock),
      Some(this.watermark).filter(_ => byWatermark),
      Some(watermark).filter(_ => byWatermark)
    )
    val (rows, broadcast) = rowsOf(elements, timestamp)
    val bySubtask = rows.zip(subtaskOf).map { case (ofInput, subtask) => ofInput.groupBy(subtask) }
    val micro = new TestedBatch(
      tasksAt(times),
      process.spec,
      columns,
      times,
      parallelism,
      subtasks.flatMap(_.operatorState),
      broadcast
    )
    val emitted = mutable.ArrayBuffer.empty[(Int, Any)]
    val before = mutable.ArrayBuffer.empty[InternalRow] // rows that results are computed of
    try {
      subtasks.zipWithIndex.foreach { case (subtask, i) =>
        subtask.run(micro, bySubtask.map(_.getOrElse(i, Nil))) { row =>
          if (computed.isEmpty) emitted += result(row) else before += row.copy(): Unit
        }
      }
      computed.foreach { above =>
        val child = LocalRelation(process.output, before.toSeq)
        emitted ++= inputs.head.collected(above.copy(child = child)).map(result)
      }
    } catch {
      case e: Throwable =>
        subtasks.foreach(_.rollback())
        throw e
    }
    subtasks.foreach(_.commit())
    batch += 1
    staticsRead = StaticInputs.noting(staticsRead, static.map(_.name))
    if (process.spec.states.nonEmpty || process.spec.timers) keyOfStates = Some(keyColumns)
    this.watermark = watermark
    this.clock = clock
    emitted.toSeq
  }

  /** The rows of the function's inputs, and the broadcast rows. A batch Dataset is read in the
    * first micro-batch in which the operator has it; see
    * [[org.apache.spark.sql.keystate.operator.StaticInputs]].
    */
  private def rowsOf(
      elements: Seq[Seq[Any]],
      timestamp: Option[Long]
  ): (Seq[Seq[InternalRow]], Option[BroadcastInput]) = {
    val plans = Seq(process.left, process.right)
    val fed = inputs.zipAll(elements, null, Nil).map { case (input, own) =>
      input -> input.asInstanceOf[TestedInput[Any]].rows(own, timestamp, plans)
    }
    val of = inputs.head.evaluated(_: LogicalPlan, _: Seq[SortOrder], fed)
    val left = of(process.left, process.rows.order)
    process.second.fold((Seq(left), Option.empty[BroadcastInput])) { second =>
      val right =
        if (static.forall(it => StaticInputs.isUnread(it.name, staticsRead)))
          of(process.right, second.rows.order)
        else Nil
      if (second.role == InputRole.Broadcast) {
        val rows = new BroadcastInput(second.rows.columns, process.right.output, right.toArray)
        (Seq(left), Some(rows))
      } else (FunctionInputs.byIndex(left, right, second.isFirst), None)
    }
  }

  private def keyColumns = SystemColumnFamilies.columnsOf(DataTypeUtils.fromAttributes(read.keys))

  private def columns = OperatorColumns(read.columns, read.keys, process.output)

  private def tasksAt(times: OperatorTasks.Times): OperatorTasks = {
    def late(columns: Seq[Attribute]) = WatermarkSupport.watermarkExpression(
      WatermarkSupport.findEventTimeColumn(columns, false),
      times.lateRows
    )
    val info =
      StatefulOperatorStateInfo("harness", run, 0, batch + 1, parallelism, None)
    new OperatorTasks(
      process.function.runner(inputs.head.conf, Map.empty),
      process.spec,
      columns,
      read.rowOrder,
      OperatorTasks.StoredState(info, groups, Nil, purges = false),
      times,
      read.late(late).map(_.filterNot(_ => process.spec.rowHandling.lateRows)),
      realTime = false,
      None,
      new OperatorTasks.Metrics(Map("numRowsDroppedByWatermark" -> dropped))
    )
  }

  private val run = UUID.randomUUID
  private val dropped = new SQLMetric("sum")

  /** Elements that were dropped because they were late. */
  def numLateElements: Long = dropped.value

  /** The subtask of a row. */
  private def routing(input: InputColumns): InternalRow => Int =
    if (input.keys.isEmpty) {
      val hash = UnsafeProjection.create(
        Seq(Pmod(new Murmur3Hash(input.seen), Literal(parallelism))),
        input.all
      )
      row => hash(row).getInt(0)
    } else {
      val groups = groupsOf(process)
      val reader = new InputReader(input, groups).keys
      row => KeyGroups.subtaskOf(reader.group(row), parallelism, groups)
    }

  private def result(row: InternalRow): (Int, Any) =
    if (tags.isEmpty) (0, outputs.head._2(row))
    else {
      val index = outputs.indices.find(!row.isNullAt(_)).get
      val width = computed.getOrElse(process).output(index).dataType.asInstanceOf[StructType]
      (index, outputs(index)._2(row.getStruct(index, width.length)))
    }

  /** Entries of the function's states and timers. */
  def numEntries: Long = {
    val names = process.spec.states.map(_.name) :+
      SystemColumnFamilies.timers(process.spec.windows)._1
    subtasks.map(_.count(names)).sum
  }

  /** Timers of a domain, of all keys. */
  def numTimers(domain: TimeDomain): Long = subtasks.map(_.timers(domain)).sum

  /** A broadcast state's entries in a subtask. */
  def broadcastState(name: String, subtask: Int): Map[Any, Any] = {
    val declared = process.function match {
      case own: JvmFunction => own.broadcast.toSeq.flatMap(_.states)
      case _ => Nil
    }
    val state = declared
      .find(_.spec.name == name)
      .getOrElse(throw KeystateErrors.noBroadcastState(name, declared.map(_.spec.name)))
    subtasks(subtask).broadcastState(state)
  }

  /** Entries of one state. */
  def numEntries(state: String): Long = subtasks.map(_.count(Seq(state))).sum

  /** Lets the opened functions go: the next micro-batch opens others. */
  def restart(): Unit = subtasks.foreach(_.restart())

  /** The same with another function, which has the same input. */
  def restart(build: () => Dataset[OUT]): Unit = {
    restart()
    prepare(build)
  }

  def held: HeldState =
    HeldState(groups, keyOfStates, batch, staticsRead, watermark, clock, subtasks.map(_.held))

  /** Continues from the state of another operator, which may have another number of subtasks. Call
    * it before the first micro-batch.
    */
  def restore(held: HeldState): Unit = {
    if (held.maxParallelism != groups)
      throw KeystateErrors.maxParallelismChanged(held.maxParallelism, groups, "of the harness")
    held.keyOfStates.foreach(SchemaEvolution.checkKey(_, keyColumns))
    keyOfStates = held.keyOfStates
    batch = held.batch
    staticsRead = held.staticsRead
    watermark = held.watermark
    clock = held.clock
    val states = held.subtasks.map(operatorState)
    val dealt =
      if (states.size == parallelism || states.forall(_.isEmpty)) states.padTo(parallelism, None)
      else OperatorState.redistribute(states.flatten, parallelism).map(Some(_))
    val operatorGroup = KeyGroups.operatorGroup(groups)
    subtasks.zipWithIndex.foreach { case (subtask, i) =>
      val range = KeyGroups.rangeOf(i, parallelism, groups)
      val names = held.subtasks.flatten.distinctBy(_.name)
      // As after a rescale, state without a key comes from one of the old subtasks.
      val another = held.subtasks(i % held.subtasks.size)
      val families = names.map { family =>
        def entries(of: Seq[HeldFamily]) = of.filter(_.name == family.name).flatMap(_.entries)
        val own =
          if (family.name == OperatorState.FamilyName)
            dealt(i).toSeq.map { state =>
              HeldEntry(operatorGroup, OperatorState.StateKey, OperatorState.toJson(state))
            }
          else
            entries(held.subtasks.flatten).filter(entry => range.contains(entry.group)) ++
              entries(another).filter(_.group == operatorGroup)
        family.copy(entries = own)
      }
      subtask.restore(families.sortBy(_.name))
    }
  }

  private def operatorState(subtask: Seq[HeldFamily]): Option[OperatorState] = for {
    family <- subtask.find(_.name == OperatorState.FamilyName)
    entry <- family.entries.find(_.key.sameElements(OperatorState.StateKey))
  } yield OperatorState.fromJson(entry.value)

  override def close(): Unit = subtasks.foreach(_.close())
}
