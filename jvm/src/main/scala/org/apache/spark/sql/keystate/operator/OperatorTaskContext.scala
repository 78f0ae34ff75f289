package org.apache.spark.sql.keystate.operator

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}

import keystate.backend.{KeyedStateBackend, StateEntries}
import keystate.checkpoint.OperatorState
import keystate.keygroup.{KeyGroupRange, KeyGroups}
import keystate.ttl.{Expiry, TtlEntries}
import org.apache.spark.sql.keystate.operator.EventTimeReader
import org.apache.spark.sql.keystate.spec.{OperatorSpec, OwnFamilies}
import org.apache.spark.sql.keystate.state.{
  BroadcastStates,
  EvolvedEntries,
  RawKeyedState,
  SubtaskState,
  Timers
}
import org.apache.spark.sql.keystate.store.{BackendLease, SubtaskScope}

/** What a task of a keyed operator works on: its states in their backend, and what the function may
  * know of its place.
  *
  * @param input
  *   the columns of the rows that come in; `columns` are those that the function sees
  * @param grouping
  *   the columns of `input` that are the key
  * @param lease
  *   of the backend, as long as the task has it
  * @param families
  *   the backend's ids of what the operator keeps, in the order of `spec.families`
  * @param processingTime
  *   the micro-batch's time
  * @param expiries
  *   what has expired in this task, of states with a time to live
  * @param subtask
  *   keeps what lives longer than the task
  */
private[keystate] final class OperatorTaskContext(
    val spec: OperatorSpec,
    input: Seq[Attribute],
    val columns: Seq[Attribute],
    val grouping: Seq[Attribute],
    val output: Seq[Attribute],
    val lease: BackendLease,
    val families: Seq[Int],
    val maxParallelism: Int,
    val parallelism: Int,
    val streaming: Boolean,
    val batchId: Long,
    val queryRun: String,
    val processingTime: Option[Long],
    val expiries: Map[String, Expiry],
    val subtask: SubtaskScope
) {
  val task: TaskContext = TaskContext.get()

  /** To be used under the lease. */
  val backend: KeyedStateBackend = lease.backend

  /** What each state is read and written through. */
  val entries: Seq[StateEntries] = spec.states.map { state =>
    val current = EvolvedEntries.of(state, backend)
    expiries.get(state.name).fold(current)(new TtlEntries(current, _))
  }

  val timers: Option[Timers] =
    Option.when(spec.timers)(new Timers(families.last, backend, maxParallelism))

  val broadcastStates: Option[BroadcastStates] = Option.when(spec.broadcast.nonEmpty) {
    val first = spec.states.size
    val ids = families.slice(first, first + spec.broadcast.size + 1)
    new BroadcastStates(spec.broadcast, ids, backend, maxParallelism)
  }

  val operatorState: Option[SubtaskState] = Option.when(spec.checkpointed) {
    new SubtaskState(family(OperatorState.FamilyName), backend, maxParallelism)
  }

  val rawKeyedState: Option[RawKeyedState] = Option.when(spec.rawKeyed) {
    // A batch's partitions hold keys of any group.
    val groups =
      if (streaming) KeyGroups.rangeOf(task.partitionId(), parallelism, maxParallelism)
      else KeyGroupRange(0, maxParallelism - 1)
    new RawKeyedState(family(OwnFamilies.RawKeyedName), backend, groups)
  }

  private def family(name: String) = families(spec.families.indexWhere(_.name == name))

  /** Reads the operator state that every subtask had when the batch began. */
  var readOperatorStates: () => Seq[OperatorState] = () => Nil

  /** What the function's own metrics counted in this task. */
  var metrics: MetricValues = MetricValues.Empty

  /** The batch's broadcast elements; None when nothing was broadcast. */
  var broadcastInput: Option[BroadcastInput] = None

  /** Of rows with these columns. */
  val eventTime = new EventTimeReader(columns)

  /** None while there is no watermark; a batch has one once its rows have ended. */
  var watermark: Option[Long] = None

  def keyReader: KeyReader =
    new KeyReader(Routing.normalized(grouping), input, maxParallelism)

  /** Narrows a row to what the function sees. */
  val toColumns: InternalRow => InternalRow =
    if (columns == input) identity else UnsafeProjection.create(columns, input)
}
