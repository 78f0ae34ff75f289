package org.apache.spark.sql.keystate.jvm.testing

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Literal, Murmur3Hash, Pmod, UnsafeProjection}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperatorStateInfo,
  WatermarkSupport
}
import org.apache.spark.sql.streaming.{TimeMode => SparkTimeMode}
import org.apache.spark.sql.types.StructType

import keystate.OutputTag
import keystate.checkpoint.OperatorState
import keystate.errors.KeystateErrors
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.jvm.{Outputs, SideOutputs}
import org.apache.spark.sql.keystate.operator.{
  EarliestTime,
  InTurn,
  InputColumns,
  InputReader,
  OperatorColumns,
  OperatorTasks
}
import org.apache.spark.sql.keystate.plan.{KeyedProcess, KeyedProcessStrategy}

/** The operator that a function makes of a Dataset, with all of its subtasks, without a query. Each
  * call that processes something is a micro-batch. It keeps in memory what a query stores.
  *
  * @param build
  *   makes the Dataset of the function's results, as in a query
  * @param tags
  *   the side outputs that are read
  */
final class TestedOperator[IN, OUT](
    input: TestedInput[IN],
    build: Dataset[IN] => Dataset[OUT],
    parallelism: Int,
    maxParallelism: Int,
    tags: Seq[OutputTag[_]],
    backend: String
) extends AutoCloseable {
  private var process: KeyedProcess = _
  private var outputs: Seq[(String, ExpressionEncoder.Deserializer[Any])] = _
  private var subtaskOf: InternalRow => Int = _
  prepare(build)
  private val groups = groupsOf(process)
  private val subtasks = (0 until parallelism).map(new TestedSubtask(_, groups, backend))

  private var batch = 0L
  private var watermark = 0L
  private var clock = 0L

  /** In ms. */
  def currentWatermark: Long = watermark
  def currentProcessingTime: Long = clock

  private def prepare(build: Dataset[IN] => Dataset[OUT]): Unit = {
    val built = build(input.stream)
    val main = "main" -> decoder(ObjectCodec.expression(built.encoder))
    val side = tags.map(tag => tag.id -> decoder(Outputs.Side(tag).encoder))
    val plan =
      if (tags.isEmpty) built.queryExecution.analyzed
      else SideOutputs.all(built, tags).queryExecution.analyzed
    process = plan match {
      case one: KeyedProcess if one.other.isEmpty => one
      case other =>
        throw KeystateErrors.declaration(
          "A harness runs one operator of one input: it takes what process, flatMap, a window and " +
            s"so on return, not a Dataset of ${other.nodeName}."
        )
    }
    outputs = main +: side
    subtaskOf = routing(columns.inputs.head)
  }

  private def groupsOf(process: KeyedProcess) =
    process.spec.maxParallelism.getOrElse(maxParallelism)

  private def decoder(encoder: ExpressionEncoder[Any]) =
    ObjectCodec.bound(encoder).createDeserializer()

  private def columns = OperatorColumns(
    Seq(InputColumns(process.left.output, process.rows.columns, process.rows.keys)),
    process.rows.keys,
    process.output
  )

  /** Runs a micro-batch.
    *
    * @param timestamp
    *   if it is there, the event time of the elements in ms, whatever is in their column
    * @return
    *   the results, each with the index of its output: 0 for the main output, then the side outputs
    */
  def run(
      elements: Seq[IN],
      timestamp: Option[Long] = None,
      watermark: Long = this.watermark,
      clock: Long = this.clock
  ): Seq[(Int, Any)] = {
    if (watermark < this.watermark || clock < this.clock)
      throw KeystateErrors.declaration(
        s"Clocks do not go back: from ${this.watermark} and ${this.clock} to $watermark and $clock."
      )
    val byWatermark = KeyedProcessStrategy.timeMode(process) == SparkTimeMode.EventTime()
    val times = OperatorTasks.Times(
      Some(clock),
      Some(this.watermark).filter(_ => byWatermark),
      Some(watermark).filter(_ => byWatermark)
    )
    val tasks = tasksAt(times)
    val emitted = mutable.ArrayBuffer.empty[(Int, Any)]
    val rows = input.rows(process, elements, timestamp).groupBy(subtaskOf)
    val states = subtasks.flatMap(_.operatorState)
    try
      subtasks.zipWithIndex.foreach { case (subtask, i) =>
        val own = rows.getOrElse(i, Nil)
        subtask.run(tasks, process.spec, columns, times, parallelism, states, own)(row =>
          emitted += result(row)
        )
      }
    catch {
      case e: Throwable =>
        subtasks.foreach(_.rollback())
        throw e
    }
    subtasks.foreach(_.commit())
    batch += 1
    this.watermark = watermark
    this.clock = clock
    emitted.toSeq
  }

  private def tasksAt(times: OperatorTasks.Times): OperatorTasks = {
    val late = WatermarkSupport.watermarkExpression(
      WatermarkSupport.findEventTimeColumn(process.left.output, false),
      times.lateRows
    )
    val info =
      StatefulOperatorStateInfo("harness", run, 0, batch + 1, parallelism, None)
    new OperatorTasks(
      process.function.runner(input.conf, Map.empty),
      process.spec,
      columns,
      InTurn(Seq(0)),
      OperatorTasks.StoredState(info, groups, Nil, purges = false),
      times,
      Seq(late.filterNot(_ => process.spec.takesLateRows)),
      realTime = false,
      None,
      new OperatorTasks.Metrics(
        Map("numRowsDroppedByWatermark" -> dropped),
        None,
        new EarliestTime,
        None,
        None,
        None,
        None
      )
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
      val width = process.output(index).dataType.asInstanceOf[StructType]
      (index, outputs(index)._2(row.getStruct(index, width.length)))
    }

  /** Entries of the function's states and timers. */
  def numEntries: Long = subtasks.map(_.count(process.spec.families.map(_.name))).sum

  /** Entries of one state. */
  def numEntries(state: String): Long = subtasks.map(_.count(Seq(state))).sum

  /** Lets the opened functions go: the next micro-batch opens others. */
  def restart(): Unit = subtasks.foreach(_.restart())

  /** The same with another function, which has the same input. */
  def restart(build: Dataset[IN] => Dataset[OUT]): Unit = {
    restart()
    prepare(build)
  }

  def held: HeldState = HeldState(groups, batch, watermark, clock, subtasks.map(_.held))

  /** Goes on from what another operator had, which may have another number of subtasks. To be called
    * before the first micro-batch.
    */
  def restore(held: HeldState): Unit = {
    if (held.maxParallelism != groups)
      throw KeystateErrors.maxParallelismChanged(held.maxParallelism, groups, "of the harness")
    batch = held.batch
    watermark = held.watermark
    clock = held.clock
    val states = held.subtasks.map(operatorState)
    val dealt =
      if (states.size == parallelism || states.forall(_.isEmpty)) states.padTo(parallelism, None)
      else OperatorState.redistribute(states.flatten, parallelism).map(Some(_))
    subtasks.zipWithIndex.foreach { case (subtask, i) =>
      val range = KeyGroups.rangeOf(i, parallelism, groups)
      val families = held.subtasks.flatten.groupBy(_.name).values.toSeq.map { ofAll =>
        val own =
          if (ofAll.head.name == OperatorState.FamilyName)
            dealt(i).toSeq.map { state =>
              HeldEntry(
                KeyGroups.operatorGroup(groups),
                OperatorState.StateKey,
                OperatorState.toJson(state)
              )
            }
          else ofAll.flatMap(_.entries).filter(entry => range.contains(entry.group))
        ofAll.head.copy(entries = own)
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
