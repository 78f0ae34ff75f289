package org.apache.spark.sql.keystate.operator

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Predicate}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOpStateStoreCheckpointInfo, StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.util.{CollectionAccumulator, CompletionIterator, Utils}

import keystate.backend.heap.HeapStateBackend
import keystate.backend.{Expiry, StateFamily}
import keystate.config.Settings
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.metadata.RecordedStates
import org.apache.spark.sql.keystate.metrics.OperatorReport
import org.apache.spark.sql.keystate.spec.{OperatorSpec, SystemColumnFamilies}
import org.apache.spark.sql.keystate.state.{DueTimers, StateSweeps}
import org.apache.spark.sql.keystate.store.{BackendLease, KeyGroupStateStore, SubtaskScope}

/** The work of the tasks of one execution of a keyed operator. It is sent with every task, so it
  * holds no plan: for a small micro-batch the plan would be most of the bytes sent.
  *
  * @param inputOrder
  *   the order in which the rows of the inputs come
  * @param late
  *   for each input: true for rows behind the watermark, which are dropped or emitted unchanged
  */
private[keystate] final class OperatorTasks(
    runner: FunctionRunner,
    spec: OperatorSpec,
    columns: OperatorColumns,
    inputOrder: InputOrder,
    state: OperatorTasks.StoredState,
    times: OperatorTasks.Times,
    late: Seq[Option[Expression]],
    realTime: Boolean,
    broadcast: Option[OperatorTasks.Elements],
    metrics: OperatorTasks.Metrics
) extends Serializable {

  /** The key properties that each version records. */
  private val keyedBy = SystemColumnFamilies.keyedBy(DataTypeUtils.fromAttributes(columns.grouping))

  /** @param inputs
    *   the rows of each input
    */
  def processStream(
      store: StateStore,
      inputs: Seq[Iterator[InternalRow]]
  ): Iterator[InternalRow] = {
    val own = store match {
      case own: KeyGroupStateStore => own
      case other =>
        throw KeystateErrors.providerMissing(other.getClass.getName, Settings.ProviderClass)
    }
    val started = System.nanoTime
    val task = open(own)
    val reports = metrics.reports.map(_.begin(task.index, new StreamSubtask(own, task)))
    val sweeps = new StateSweeps(task.spec.states, task.entries, own.groups, own.sweeps)
    val (run, output) = begin(task, inputs) { (rows, i) =>
      val input = columns.inputs(i)
      reports.foldLeft(sweeps.counting(rows)) { (seen, report) =>
        report.seeing(seen, input.all, input.keys)
      }
    }
    CompletionIterator[InternalRow, Iterator[InternalRow]](
      metrics.counting(output), {
        own.lease.use {
          metrics.add("numUpdatedStateRows", run.updated)
          metrics.add("numRemovedStateRows", run.removed + reports.map(_.removed).sum)
          metrics.add("allUpdatesTimeMs", NANOSECONDS.toMillis(System.nanoTime - started))
          sweeps.run(run.updated + run.removed)
          reports.foreach(_.ended())
        }
        metrics.add("commitTimeMs", Utils.timeTakenMs(store.commit())._2)
        metrics.addStore(store)
        reports.foreach(_.committed())
      }
    )
  }

  /** Begins to apply the function to the rows of a stream's task, and to the timers that are due.
    *
    * @param counted
    *   sees the rows of an input that are not late
    * @return
    *   the pass, and the emitted rows: the function's results, and late rows if they are read
    */
  def begin(task: OperatorTaskContext, inputs: Seq[Iterator[InternalRow]])(
      counted: (Iterator[InternalRow], Int) => Iterator[InternalRow]
  ): (FunctionPass, Iterator[InternalRow]) = {
    val lateRows = inputs.indices.map { i =>
      spec.lateOutputs.lift(i).flatten.map(new LateRows(columns.output, _, columns.inputs(i)))
    }
    val rows = inputs.indices.map(i => counted(onTime(inputs(i), i, lateRows(i)), i))
    val run = runner.run(inputOrder.rows(rows), task.due, task)
    (run, run.output ++ lateRows.iterator.flatten.flatMap(_.rows))
  }

  /** Opens the operator's states in a store. */
  private def open(own: KeyGroupStateStore): OperatorTaskContext = {
    val spec = this.spec.continuing(own.family)
    val key = DataTypeUtils.fromAttributes(columns.grouping)
    new OpenWindows(own.families, own.lease.backend, own.groups.first to own.groups.last, key)
      .check(spec)
    if (state.purges) RecordedStates.removed(own.families, spec).foreach(own.dropFamily)
    val expired = OperatorTasks.expiries(spec, times, own.family, live = realTime)
    own.family(StateStore.DEFAULT_COL_FAMILY_NAME).foreach { f =>
      val read = StaticInputs.after(f, own.version, state.staticInput)
      // Marks the version for its readers: its batch used a clock that is not recorded.
      val told = if (realTime) SystemColumnFamilies.madeInRealTime(read, own.version + 1) else read
      own.registerFamily(f.name, f.layout, SystemColumnFamilies.ofOneTimeMode(told) ++ keyedBy)
    }
    val families = spec.families.map { f =>
      val properties = f.properties ++ expired.get(f.name).toSeq.flatMap(_.properties)
      f.name -> own.registerFamily(f.name, f.layout, properties).id
    }.toMap
    new OperatorTaskContext(
      own.id.partitionId,
      spec,
      columns,
      batch(streaming = true, state.info.numPartitions),
      own.lease,
      families,
      expired,
      own.provider.subtask,
      times.lateRows,
      times.watermark,
      broadcast.map(_.input),
      () => SharedOperatorStates.of(beginning)(() => own.operatorStates(state.checkpointIds))
    )
  }

  /** Runs a subtask of a batch query. Its state lasts as long as the task.
    *
    * @param index
    *   the index of its partition among the operator's `parallelism` partitions
    */
  def processBatch(
      index: Int,
      parallelism: Int,
      inputs: Seq[Iterator[InternalRow]]
  ): Iterator[InternalRow] = {
    val backend = new HeapStateBackend(state.maxParallelism)
    spec.families.foreach(backend.register)
    val subtask = new SubtaskScope
    TaskContext.get().addTaskCompletionListener[Unit](_ => subtask.close())
    val lease = new BackendLease(
      backend,
      () => (),
      s"partition $index, attempt ${TaskContext.get().attemptNumber()}"
    )
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      lease.end(): Unit
    }
    val task = new OperatorTaskContext(
      index,
      spec,
      columns,
      batch(streaming = false, parallelism),
      lease,
      spec.families.map(family => family.name -> family.id).toMap,
      expiries = Map.empty,
      subtask,
      None,
      None,
      broadcast.map(_.input),
      () => Nil
    )

    // When the input has ended, all time has passed: timers fire until none are left; each pass
    // fires the timers that don't wait for the next pass. For a function in Python they have fired
    // already, in its worker.
    def timerPasses: Iterator[InternalRow] = {
      task.endInput()
      task.due.nextRound()
      if (task.due.isEmpty) Iterator.empty
      else runner.run(TaskRows.Empty, task.due, task).output ++ timerPasses
    }
    metrics.counting(
      runner.run(inputOrder.rows(inputs), DueTimers.none, task).output ++ timerPasses
    )
  }

  private def beginning = SharedOperatorStates.Beginning(
    state.info.queryRunId.toString,
    state.info.operatorId,
    state.info.storeVersion
  )

  /** The part that all tasks share. */
  def batch(streaming: Boolean, parallelism: Int) = BatchInfo(
    streaming,
    realTime,
    state.info.storeVersion,
    state.info.queryRunId.toString,
    times.processing,
    parallelism,
    state.maxParallelism
  )

  private def onTime(
      rows: Iterator[InternalRow],
      input: Int,
      kept: Option[LateRows]
  ): Iterator[InternalRow] = late(input) match {
    case None => rows
    case Some(late) =>
      val isLate = Predicate.create(late, columns.inputs(input).all)
      rows.filterNot { row =>
        val behind = isLate.eval(row)
        if (behind) kept match {
          case Some(output) => output.add(row)
          case None => metrics.add("numRowsDroppedByWatermark", 1)
        }
        behind
      }
  }
}

private[keystate] object OperatorTasks {

  /** The state that a micro-batch begins with.
    *
    * @param checkpointIds
    *   the ids of the partitions' version files; each is None with checkpoint format v1
    * @param purges
    *   whether states that the function no longer declares are deleted
    * @param staticInput
    *   the inputs that are read once; see [[StaticInputs]]
    */
  final case class StoredState(
      info: StatefulOperatorStateInfo,
      maxParallelism: Int,
      checkpointIds: Seq[Option[String]],
      purges: Boolean,
      staticInput: Option[String] = None
  )

  /** The times of a micro-batch, in ms.
    *
    * @param processing
    *   its time; None in a batch query
    * @param lateRows
    *   in event time: rows behind it are late
    * @param watermark
    *   in event time: timers that are due by it fire, and entries older than it expire
    */
  final case class Times(processing: Option[Long], lateRows: Option[Long], watermark: Option[Long])

  /** The expiries of a task, by the names of states with a time to live.
    *
    * @param recorded
    *   finds a state as the last version has it
    * @param live
    *   whether processing time goes on in the task
    */
  def expiries(
      spec: OperatorSpec,
      times: Times,
      recorded: String => Option[StateFamily],
      live: Boolean
  ): Map[String, Expiry] = {
    for {
      state <- spec.states
      ttl <- state.ttl
      time <- if (ttl.eventTime) times.watermark else times.processing
      properties = recorded(state.name).fold(Map.empty[String, String])(_.properties)
    } yield state.name -> Expiry(ttl, time, properties, live && !ttl.eventTime)
  }.toMap

  /** Broadcast elements. Their rows have the columns `all`; the function sees `columns`. */
  final class Elements(
      columns: Seq[Attribute],
      all: Seq[Attribute],
      rows: Broadcast[Array[InternalRow]]
  ) extends Serializable {
    def input: BroadcastInput = new BroadcastInput(columns, all, rows.value)
  }

  /** The reports of tasks to the driver besides their rows.
    *
    * @param values
    *   the operator's metrics, by Spark's names and those of the store
    * @param checkpoints
    *   takes the ids of the new versions; None with checkpoint format v1
    * @param reports
    *   what else rides on the subtasks
    */
  final class Metrics(
      values: Map[String, SQLMetric],
      checkpoints: Option[CollectionAccumulator[StatefulOpStateStoreCheckpointInfo]] = None,
      val reports: Seq[OperatorReport[StreamSubtask, _]] = Nil
  ) extends Serializable {
    def add(name: String, value: Long): Unit = values(name) += value

    def counting(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
      val emitted = values("numOutputRows")
      rows.map { row =>
        emitted += 1
        row
      }
    }

    /** Adds the metrics of a store that was committed. */
    def addStore(store: StateStore): Unit = {
      val metrics = store.metrics
      add("numTotalStateRows", metrics.numKeys)
      add("stateMemory", metrics.memoryUsedBytes)
      add("numStateStoreInstances", 1)
      metrics.customMetrics.foreach { case (metric, value) => add(metric.name, value) }
      checkpoints.foreach { ids =>
        val made = store.getStateStoreCheckpointInfo()
        ids.add(
          StatefulOpStateStoreCheckpointInfo(
            made.partitionId,
            made.batchVersion,
            made.stateStoreCkptId.map(Array(_)),
            made.baseStateStoreCkptId.map(Array(_))
          )
        )
      }
    }
  }
}
