package org.apache.spark.sql.keystate.python

import org.apache.arrow.vector.VectorSchemaRoot
import org.json4s.JsonAST.{JInt, JObject}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructField, StructType}
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.{ArrowStreams, Elements, ReceivedRows}
import org.apache.spark.sql.keystate.operator.{OperatorTaskContext, TaskRows}
import org.apache.spark.sql.keystate.python.messages.{
  ArrowParts, CacheEpochs, KeyIndexes, KeyedColumns, LiveTurns, MessageSender, MessageSettings,
  PackedAnswer, Packing, PackingSender, RowSender, StateColumns, TimerColumns
}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, Protocol}
import org.apache.spark.sql.keystate.state.DueTimers

/** One task of a keyed operator: its conversation with the Python worker.
  *
  * The input is sent in messages of some thousand rows. A key gets a key index when it first
  * appears, and its state is sent with that message. Later rows of the key have only that index,
  * because the worker keeps the state.
  *
  * [[CacheEpochs]] bound the worker's cache.
  *
  * At the end of the input the due timers are sent, and then the worker returns the rest. Due
  * timers that this micro-batch has set fire in the worker itself, each in its turn. If the worker
  * has dropped the keys of some of them, it sends its changes and asks for timers until none are
  * left, see [[TimerQuestions]]. It does the same in a batch query, where all timers fire once the
  * input has ended.
  *
  * In real-time mode, see [[LiveTurns]], timers that the clock has passed are sent before rows, a
  * cache epoch also ends after some time, and each answer has the timers that were set.
  *
  * The task's own thread writes messages and reads answers. Only the worker's questions are
  * answered in another thread. All access to the backend is under the task's lease: so answers are
  * read and questions answered under it, see [[PythonRunner]].
  */
private[keystate] final class RowConversation(
    task: OperatorTaskContext,
    taskRows: TaskRows,
    states: KeyedColumns,
    dueTimers: DueTimers,
    project: InternalRow => InternalRow,
    context: JObject,
    settings: MessageSettings,
    val live: Option[LiveTurns],
    packing: Option[Packing]
) extends Conversation
    with AskedKeys {
  import RowConversation._
  import task.{lease, operatorState, rawKeyedState, timers}

  private val cacheEpochs = new CacheEpochs

  /** The numbers of entries that the worker has put and removed so far. */
  var updated = 0L
  var removed = 0L

  private var control = live.fold(context)(_.control(context))

  /** Adds fields to the control. */
  def announce(more: JObject): Unit = control = control.merge(more)

  override def keyIndexesOf(cacheEpoch: Int): KeyIndexes = cacheEpochs.keyIndexesOf(cacheEpoch)

  override def readBefore(cacheEpoch: Int): Int = cacheEpochs.readBefore(cacheEpoch)

  override def sender(root: VectorSchemaRoot): MessageSender =
    packing.fold[MessageSender](rowSender(root, packs = false)) { packing =>
      new PackingSender(root, rowSender(packing.root, packs = true), packing)
    }

  private def rowSender(
      root: VectorSchemaRoot,
      packs: Boolean,
      due: DueTimers = dueTimers,
      answersTimers: Boolean = false
  ) = new RowSender(
    root,
    packs,
    task,
    taskRows,
    states,
    due,
    answersTimers,
    settings,
    live,
    cacheEpochs,
    () => control
  )

  /** Takes an answer: stores its state changes and returns the rows that the function emitted. */
  override def receive(column: String => ArrowColumnVector): Iterator[InternalRow] = {
    applyChanges(column)
    live.foreach(_.answered(until = column(Protocol.Answer.Until).getInt(0)))
    if (operatorState.exists(OperatorStateColumns.receive(_, column)))
      rawKeyedState.foreach(OperatorStateColumns.receiveRaw(_, column))
    val rows = new ReceivedRows(Elements(column(Protocol.Answer.Out)), isStruct = true)
    Iterator.range(0, rows.size).map(i => project(rows(i)))
  }

  /** Takes a packed answer: stores its timers and returns its rows. */
  def receive(answer: PackedAnswer): Iterator[InternalRow] = {
    if (answer.timers > 0) lease.use(answer.setTimers(timers.get, keyIndexesOf(answer.cacheEpoch)))
    live.get.answered(until = 0)
    answer.rows
  }

  /** The next timers that are due, as one more message. None if none are left. The worker asks for them
    * when it has had all messages and has handed over its changes.
    */
  def timersLeft(schema: StructType, format: ArrowStreams): Option[Array[Byte]] = {
    val due = task.due
    if (!task.batch.streaming) {
      control = control.merge(JObject(Protocol.Control.Watermark -> JInt(Long.MaxValue)))
      if (due.isEmpty) due.nextRound()
    }
    Option.when(due.nonEmpty) {
      format.writeVectors(schema) { root =>
        rowSender(root, packs = false, due, answersTimers = true).fill(Iterator.empty)
        1
      }
    }
  }

  /** Stores the state changes of an answer, if it has any. */
  def applyChanges(column: String => ArrowColumnVector): Unit = {
    val changesOf = column(Protocol.Answer.CacheEpoch).getInt(0)
    if (changesOf != NoChanges) {
      val (put, gone) = states(keyIndexesOf(changesOf), column)
      updated += put
      removed += gone
      timers.foreach(TimerColumns(_, keyIndexesOf(changesOf), column))
      cacheEpochs.changed(changesOf, column(Protocol.Answer.Until).getInt(0))
    }
  }
}

private[keystate] object RowConversation {

  /** The `cache_epoch` of an answer without state changes. */
  private val NoChanges = -1

  /** The schema of a message to the worker: one row, whose columns are lists of any length.
    *
    * @param rows
    *   the columns of each input
    */
  def messageSchema(rows: Seq[StructType], keys: StructType, spec: OperatorSpec): StructType = {
    val ofSecond =
      if (rows.size == 1) Nil else Seq(StateColumns.list(Protocol.Message.Inputs, IntegerType))
    val fields = Seq(StructField(Protocol.Message.Control, BinaryType)) ++
      ArrowParts.RowColumns.zip(rows).map { case (name, columns) =>
        StateColumns.list(name, columns)
      } ++
      ofSecond ++ Seq(
        StateColumns.list(Protocol.Message.KeyIndexes, IntegerType),
        StateColumns.list(Protocol.Message.Keys, keys),
        StateColumns.list(Protocol.Message.Carried, IntegerType)
      ) ++ spec.states.zipWithIndex.flatMap { case (state, i) =>
        StateColumns.sentFields(state, i)
      } ++
      (if (spec.timers) TimerColumns.sentFields(spec.windows.nonEmpty) else Nil)
    Conversation.message(fields)
  }
}
