package org.apache.spark.sql.keystate.operator

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.Attribute

import keystate.backend.{Expiry, KeyedStateBackend, StateEntries}
import keystate.checkpoint.OperatorState
import keystate.keygroup.{KeyGroupRange, KeyGroups}
import org.apache.spark.sql.keystate.metrics.MetricValues
import org.apache.spark.sql.keystate.spec.{OperatorSpec, SystemColumnFamilies}
import org.apache.spark.sql.keystate.state.{
  BroadcastStates, DueTimers, FamilyEntries, OperatorStateEntries, RawKeyedState, Timer, TimerKeys,
  Timers
}
import org.apache.spark.sql.keystate.store.{BackendLease, SubtaskScope}

/** The columns of an operator.
  *
  * @param inputs
  *   the columns of each of its inputs
  * @param grouping
  *   the key columns, as they are stored
  */
private[keystate] final case class OperatorColumns(
    inputs: Seq[InputColumns],
    grouping: Seq[Attribute],
    output: Seq[Attribute]
)

/** The part that all tasks of one execution share.
  *
  * @param streaming
  *   whether this is a micro-batch of a stream; false in a batch query
  * @param id
  *   the micro-batch's number
  * @param realTime
  *   whether rows arrive, and results leave, while the batch runs
  * @param processingTime
  *   the micro-batch's time, in ms; in real-time mode, when the batch began
  */
private[keystate] final case class BatchInfo(
    streaming: Boolean,
    realTime: Boolean,
    id: Long,
    queryRun: String,
    processingTime: Option[Long],
    parallelism: Int,
    maxParallelism: Int
)

/** The data of a keyed operator's task: its states in their backend, and facts about where it runs
  * for the function. Only the task's thread may use it.
  *
  * @param index
  *   the subtask's index: the number of its store, in a batch query of its partition. The number of
  *   Spark's task differs where the plan goes on with a union or a coalesce, and then one task can
  *   be several subtasks
  * @param lease
  *   the task's lease of the backend
  * @param families
  *   the backend's ids of the operator's families, by name
  * @param expiries
  *   for each state with a time to live, which entries have expired in this task
  * @param subtask
  *   keeps objects that outlive the task
  * @param lateWatermark
  *   rows behind it are late; None while there is no watermark
  * @param beginWatermark
  *   the watermark when the task begins; None while there is none
  * @param broadcasted
  *   the micro-batch's broadcast elements; None if nothing was broadcast
  * @param readOperatorStates
  *   reads the operator state that every subtask had when the micro-batch began
  */
private[keystate] final class OperatorTaskContext(
    val index: Int,
    val spec: OperatorSpec,
    val columns: OperatorColumns,
    val batch: BatchInfo,
    val lease: BackendLease,
    val families: Map[String, Int],
    expiries: Map[String, Expiry],
    val subtask: SubtaskScope,
    val lateWatermark: Option[Long],
    beginWatermark: Option[Long],
    broadcasted: Option[BroadcastInput],
    val readOperatorStates: () => Seq[OperatorState]
) {
  val task: TaskContext = TaskContext.get()
  private var ended = false
  private var counted = MetricValues.Empty

  /** Use it only under the lease. */
  val backend: KeyedStateBackend = lease.backend

  /** The reader and writer of each state. */
  val entries: Seq[FamilyEntries] = entriesIn(backend)

  /** The timers that fire in this micro-batch, after its rows. In a batch query all timers fire. In
    * real-time mode processing-time timers fire when the clock passes them; see
    * [[org.apache.spark.sql.keystate.realtime.LiveTimers]].
    */
  val due: DueTimers = {
    val end = Option.unless(batch.streaming)(Long.MaxValue)
    new DueTimers(
      end.orElse(beginWatermark),
      end.orElse(batch.processingTime.filterNot(_ => batch.realTime)),
      (eventTime, clock) => timers.fold(Seq.empty[Timer])(_.upTo(eventTime, clock))
    )
  }

  val timers: Option[Timers] = timersIn(backend)

  /** The timers to fire, one after the other: also those that come to them meanwhile. */
  def firing(due: DueTimers): Iterator[Timer] =
    Iterator.continually(due).takeWhile(due => lease.use(due.nonEmpty)).map(_.dequeue())

  /** The reader and writer of each state, for entries in `stored`. */
  def entriesIn(stored: StateEntries): Seq[FamilyEntries] = spec.states.map { state =>
    FamilyEntries(state, families(state.name), stored, expiries.get(state.name))
  }

  /** Timers that are kept in this. */
  def timersIn(stored: StateEntries): Option[Timers] = Option.when(spec.timers) {
    val (name, _, _) = SystemColumnFamilies.timers(spec.windows)
    new Timers(families(name), TimerKeys.of(name).get, stored, batch.maxParallelism, due)
  }

  val broadcastStates: Option[BroadcastStates] = Option.when(spec.broadcast.nonEmpty) {
    new BroadcastStates(spec.broadcast, families, backend, batch.maxParallelism)
  }

  val operatorState: Option[OperatorStateEntries] = Option.when(spec.checkpointed) {
    new OperatorStateEntries(families(OperatorState.FamilyName), backend, batch.maxParallelism)
  }

  val rawKeyedState: Option[RawKeyedState] = Option.when(spec.subtaskState.exists(_.rawKeyed)) {
    // A partition of a batch query holds keys of any group.
    val groups =
      if (batch.streaming)
        KeyGroups.rangeOf(index, batch.parallelism, batch.maxParallelism)
      else KeyGroupRange(0, batch.maxParallelism - 1)
    new RawKeyedState(families(SystemColumnFamilies.RawKeyedName), backend, groups)
  }

  /** For a batch query: ends the input, and moves the clocks past all times. */
  def endInput(): Unit = ended = true

  /** None while there is no watermark. A batch query has one once its rows have ended. */
  def watermark: Option[Long] = if (ended) Some(Long.MaxValue) else beginWatermark

  /** In ms. The clock stands still, except in real-time mode. */
  def processingTime: Long =
    if (batch.realTime) System.currentTimeMillis else batch.processingTime.get

  /** The broadcast elements that are still to be processed. None if nothing was broadcast. */
  def broadcastInput: Option[BroadcastInput] = if (ended) None else broadcasted

  /** The values of the function's own metrics in this task, and the latencies in it. */
  def metrics: MetricValues = counted

  def addMetrics(values: MetricValues): Unit = counted = counted.merge(values)

  val inputs: Seq[InputReader] = columns.inputs.map(new InputReader(_, batch.maxParallelism))
}
