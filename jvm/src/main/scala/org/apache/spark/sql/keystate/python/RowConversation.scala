package org.apache.spark.sql.keystate.python

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.arrow.vector.{VarBinaryVector, VectorSchemaRoot}
import org.apache.arrow.vector.complex.{ListVector, StructVector}
import org.json4s.JsonAST.{JField, JInt, JObject}
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructField, StructType}
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.{ArrowStreams, Elements, ReceivedRows}
import org.apache.spark.sql.keystate.operator.{OperatorTaskContext, TaskRows}
import org.apache.spark.sql.keystate.python.columns.{
  ArrowParts,
  Inline,
  KeySlots,
  MessageParts,
  PackedAnswer,
  PackedBytes,
  PackedParts,
  KeyedColumns,
  StateColumns,
  TimerColumns
}
import org.apache.spark.sql.keystate.spec.OperatorSpec
import org.apache.spark.sql.keystate.state.Timer
import org.apache.spark.sql.keystate.store.StoreConfig
import keystate.settings.{Settings => KeystateSettings}
import org.apache.spark.sql.keystate.python.protocol.Protocol
import org.apache.spark.sql.keystate.python.realtime.{LiveTurns, Packing}

/** One task of a keyed operator: its conversation with the Python worker.
  *
  * The input is sent in messages of some thousand rows. A key gets a slot when it first appears,
  * and its state is sent with that message. Later rows of the key have only the slot, because the
  * worker keeps the state.
  *
  * Generations bound the worker's cache. When it has enough keys, the next message opens a new
  * generation, and the worker answers with everything that it changed in the old one. A key of the
  * old generation that comes again before that answer was read is ''carried'': the worker takes its
  * state from the key's old slot. So the JVM never has to wait. A generation is not closed before
  * the one before it was answered.
  *
  * At the end of the input the timers that are due are sent, and then the worker returns the rest.
  *
  * In a batch query all timers fire once the input has ended, also those that other timers set.
  * There the worker hands over its changes and asks for timers until none are left, see
  * [[BatchTimers]].
  *
  * In real-time mode, see [[LiveTurns]], timers that are due are sent before rows, a generation ends
  * after some time too, and each answer has the timers that were set.
  *
  * The task's own thread writes messages and reads answers. Only the worker's questions are
  * answered in another thread. Whatever touches the backend is done under the task's lease: so
  * answers are read and questions answered under it, see [[PythonRunner]].
  */
private[keystate] final class RowConversation(
    task: OperatorTaskContext,
    taskRows: TaskRows,
    states: KeyedColumns,
    dueTimers: mutable.Queue[Timer],
    project: InternalRow => InternalRow,
    context: JObject,
    settings: RowConversation.Settings,
    val live: Option[LiveTurns],
    packing: Option[Packing]
) extends Conversation
    with AskedKeys {
  import RowConversation._
  import task.{lease, operatorState, rawKeyedState, timers}

  private var generation = 0
  private var slots = new KeySlots
  private var previous: KeySlots = _ // the generation before; null once all its changes were read
  private var previousRead = 0 // how many of its slots' changes were read
  private val carried = new Array[Int](LargestStep)
  private var rowsPerMessage = settings.firstMessageRows
  private var cachedBytes = 0L // of the states that were sent in this generation
  private var sent = false

  /** The numbers of entries that the worker has put and removed so far. */
  var updated = 0L
  var removed = 0L

  private var control = live.fold(context)(_.control(context))

  /** Adds fields to the control. */
  def announce(more: JObject): Unit = control = control.merge(more)

  override def slotsOf(generation: Int): KeySlots =
    if (generation == this.generation) slots else previous

  override def readBefore(generation: Int): Int =
    if (generation == this.generation && previous != null) previousRead else Int.MaxValue

  override def sender(root: VectorSchemaRoot): MessageSender =
    packing.fold[MessageSender](new Sender(root, packs = false))(new PackingSender(root, _))

  /** Sends messages as bytes: those of few rows packed, others as Arrow streams. */
  private final class PackingSender(root: VectorSchemaRoot, packing: Packing)
      extends MessageSender {
    private val struct = root.getVector(0).asInstanceOf[StructVector]
    private val vector = struct.getChild(Protocol.Message.Packed).asInstanceOf[VarBinaryVector]
    private val sender = new Sender(packing.root, packs = true)

    override def fill(input: Iterator[InternalRow]): Boolean = {
      val more = sender.fill(input)
      if (more) {
        val bytes = sender.packed.getOrElse(packing.stream)
        vector.setSafe(0, bytes.array, 0, bytes.size)
        vector.setValueCount(1)
        struct.setIndexDefined(0)
        root.setRowCount(1)
      }
      more
    }

    override def reset(): Unit = {
      sender.reset()
      vector.reset()
      struct.reset()
    }
  }

  private final class Sender(root: VectorSchemaRoot, packs: Boolean) extends MessageSender {
    private val struct = root.getVector(0).asInstanceOf[StructVector]
    private val controls = struct.getChild(Protocol.Message.Control).asInstanceOf[VarBinaryVector]
    private val arrow = new ArrowParts(list, task.inputs.size, states.all, timers.nonEmpty)
    private lazy val packedParts = new PackedParts(states.ofValues)
    private var parts: MessageParts = arrow // of the message at hand
    private val timerKey = new UnsafeRow(task.inputs.head.keys.width)
    private val readerOf = task.inputs.toArray
    private var told: JObject = _ // what the worker knows of the control

    // Only loading states shows how large they are, so they are loaded after every few keys.
    private var loaded = 0 // slots whose states are in this message or were sent before
    private var step = FirstStep
    private var bytes = 0L // of the message's rows and states

    /** The message at hand if it is packed. */
    var packed: Option[PackedBytes] = None

    private def list(name: String) = struct.getChild(name).asInstanceOf[ListVector]

    override def fill(input: Iterator[InternalRow]): Boolean =
      if (live.exists(_.timersFirst())) {
        send(fillTimers())
        true
      } else if (input.hasNext) {
        send(fillRows(input))
        true
      } else if (live.exists(!_.isOver)) {
        send(()) // closes a generation
        true
      } else if (dueTimers.nonEmpty) {
        send(fillTimers())
        true
      } else if (operatorState.nonEmpty && !sent) {
        // Every subtask takes part in a checkpoint, also one without rows.
        send(())
        true
      } else {
        false
      }

    private def send(fillIn: => Unit): Unit = {
      lease.use {
        val full = slots.size >= settings.maxCachedKeys || cachedBytes >= settings.cachedBytes ||
          live.exists(_.isOld)
        if (full && previous == null) {
          previous = slots
          previousRead = 0
          slots = new KeySlots
          cachedBytes = 0
          generation += 1
          live.foreach(_.opened())
        }
      }
      loaded = slots.size
      step = FirstStep
      bytes = 0
      sent = true
      parts = if (packs && fewWait) packedParts else arrow
      fillIn
      loadStates()
      live.foreach { turns =>
        cachedBytes += bytes
        turns.sent(generationIsEmpty = slots.size == 0)
      }
      finish()
    }

    private def fewWait =
      math.max(live.get.input.waiting, dueTimers.size) <= PackedParts.MostRows

    /** Adds the states of the keys that came since the last call. */
    private def loadStates(): Unit = {
      val size = lease.use(parts.states.map(_.load(slots, loaded, carried)).sum)
      bytes += size
      cachedBytes += size
      loaded = slots.size
      step = math.min(4 * step, LargestStep)
    }

    private def fillRows(input: Iterator[InternalRow]): Unit = {
      val most = if (parts eq arrow) rowsPerMessage else PackedParts.MostRows
      while (input.hasNext && parts.rowCount < most && bytes < settings.messageBytes) {
        val row = input.next()
        val from = taskRows.input
        val reader = readerOf(from)
        val slot = slotOf(reader.keys.key(row), reader.keys.group(row))
        parts.addRow(from, slot, reader.toColumns(row))
        bytes += (row match {
          case unsafe: UnsafeRow => unsafe.getSizeInBytes
          case _ => settings.messageBytes / settings.messageRows
        })
      }
      rowsPerMessage = math.min(rowsPerMessage * 2, settings.messageRows)
    }

    private def fillTimers(): Unit = {
      var count = 0
      while (dueTimers.nonEmpty && count < settings.messageRows && bytes < settings.messageBytes) {
        val timer = dueTimers.dequeue()
        if (lease.use(timers.get.take(timer))) {
          timerKey.pointTo(timer.key, timer.key.length)
          parts.addTimer(slotOf(timerKey, timer.group), timer)
        }
        count += 1
      }
    }

    private def slotOf(key: UnsafeRow, group: => Int): Int = {
      val hash = key.hashCode
      val known = slots.find(key, hash)
      if (known >= 0) {
        known
      } else {
        val slot = slots.add(key, hash, group)
        val before = previous // in a batch query another thread may set it to null
        val old = if (before == null) -1 else before.find(key, hash)
        carried(slot - loaded) = old
        parts.addKey(key, old)
        if (slots.size - loaded == step) loadStates()
        slot
      }
    }

    private def finish(): Unit = {
      val news = if (told eq control) Nil else control.obj
      told = control
      packed =
        if (parts eq arrow) None
        else
          Some(
            packedParts.finish(generation, live.get.time, if (news.isEmpty) Nothing else json(news))
          )
      if (packed.isEmpty) finishArrow(news)
    }

    private def finishArrow(news: List[JField]): Unit = {
      val ofMessage = (Protocol.Control.Generation -> JInt(generation)) ::
        live.toList.map(turns => Protocol.Control.ProcessingTime -> JInt(turns.time))
      controls.setSafe(0, json(ofMessage ::: news))
      controls.setValueCount(1)
      arrow.finish()
      struct.setIndexDefined(0)
      root.setRowCount(1)
    }

    private def json(fields: List[JField]) = JsonMethods.compact(JObject(fields)).getBytes(UTF_8)

    override def reset(): Unit = {
      parts.reset()
      controls.reset()
      struct.reset()
    }
  }

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
    if (answer.timers > 0) lease.use(answer.setTimers(timers.get, slotsOf(answer.generation)))
    live.get.answered(until = 0)
    answer.rows
  }

  /** For a batch query, in which all timers fire: the next timers, as one more message. None if
    * none are left. The worker asks for them when it has had all messages and has handed over its
    * changes.
    */
  def timersOfBatch(schema: StructType, format: ArrowStreams): Option[Array[Byte]] = {
    val end = Some(Long.MaxValue)
    control = control.merge(JObject(Protocol.Control.Watermark -> JInt(Long.MaxValue)))
    if (dueTimers.isEmpty) dueTimers ++= timers.get.due(end, end)
    Option.when(dueTimers.nonEmpty) {
      format.writeVectors(schema) { root =>
        new Sender(root, packs = false).fill(Iterator.empty)
        1
      }
    }
  }

  /** Stores the state changes of an answer, if it has any. */
  def applyChanges(column: String => ArrowColumnVector): Unit = {
    val changesOf = column(Protocol.Answer.Generation).getInt(0)
    if (changesOf != NoChanges) {
      val (put, gone) = states(slotsOf(changesOf), column)
      updated += put
      removed += gone
      timers.foreach(TimerColumns(_, slotsOf(changesOf), column))
      if (changesOf != generation) {
        previousRead = column(Protocol.Answer.Until).getInt(0)
        if (previousRead == previous.size) previous = null
      }
    }
  }
}

private[keystate] object RowConversation {

  /** Bounds of a task's messages and of the worker's cache. The first message is small, so that the
    * worker starts early; from message to message the rows double, up to `messageRows`. A message
    * also ends when it has `messageBytes` of rows and states. A generation ends when it has
    * `maxCachedKeys` keys or `cachedBytes` of states.
    */
  final case class Settings(
      firstMessageRows: Int,
      messageRows: Int,
      messageBytes: Long,
      maxCachedKeys: Int,
      cachedBytes: Long,
      inline: Inline
  )

  object Settings {
    def from(conf: SQLConf): Settings = {
      val rows = conf.arrowMaxRecordsPerBatch
      Settings(
        firstMessageRows = math.min(1000, if (rows > 0) rows else 1000),
        messageRows = if (rows > 0) rows else 10000,
        messageBytes = math.min(conf.arrowMaxBytesPerBatch, 4L << 20),
        maxCachedKeys = KeystateSettings.MaxCachedKeys.of(StoreConfig.in(conf)),
        cachedBytes = 256L << 20,
        inline = Inline(KeystateSettings.InlineEntries.of(StoreConfig.in(conf)), bytes = 1L << 20)
      )
    }
  }

  /** After how many new keys of a message states are loaded: at first, and at most. */
  private val FirstStep = 16
  private val LargestStep = 256

  /** The `generation` of an answer without state changes. */
  private val NoChanges = -1

  private val Nothing = Array.emptyByteArray

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
        StateColumns.list(Protocol.Message.Slots, IntegerType),
        StateColumns.list(Protocol.Message.Keys, keys),
        StateColumns.list(Protocol.Message.Carried, IntegerType)
      ) ++ spec.states.zipWithIndex.flatMap { case (state, i) =>
        StateColumns.sentFields(state, i)
      } ++
      (if (spec.timers) TimerColumns.sentFields else Nil)
    Conversation.message(fields)
  }
}
