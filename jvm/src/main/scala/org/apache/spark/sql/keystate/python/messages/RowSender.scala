package org.apache.spark.sql.keystate.python.messages

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.arrow.vector.complex.{ListVector, StructVector}
import org.apache.arrow.vector.{VarBinaryVector, VectorSchemaRoot}
import org.json4s.JsonAST.{JBool, JField, JInt, JObject}
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.apache.spark.sql.keystate.operator.{OperatorTaskContext, TaskRows}
import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.DueTimers

/** Writes rows and timers into messages, and with each key that the worker does not have the key's
  * states.
  *
  * @param packs
  *   whether a message of few rows is packed, instead of going into the vectors of `root`
  * @param answersTimers
  *   whether the worker has asked for timers, and must learn whether more are left
  * @param control
  *   returns other data for the worker
  */
private[python] final class RowSender(
    root: VectorSchemaRoot,
    packs: Boolean,
    task: OperatorTaskContext,
    taskRows: TaskRows,
    states: KeyedColumns,
    dueTimers: DueTimers,
    answersTimers: Boolean,
    settings: MessageSettings,
    live: Option[LiveTurns],
    cacheEpochs: CacheEpochs,
    control: () => JObject
) extends MessageSender {
  import RowSender._
  import task.{lease, operatorState}

  private val struct = root.getVector(0).asInstanceOf[StructVector]
  private val controls = struct.getChild(Protocol.Message.Control).asInstanceOf[VarBinaryVector]
  private val arrow = new ArrowParts(
    list,
    task.inputs.size,
    states.all,
    task.timers.map(own => new TimerColumns(list, own.windows))
  )
  private lazy val packedParts = new PackedParts(states.ofValues)
  private var parts: MessageParts = arrow // of the current message
  private val timerKey = new UnsafeRow(task.inputs.head.keys.width)
  private val readerOf = task.inputs.toArray
  private var told: JObject = _ // the worker's present knowledge of the control
  private val carried = new Array[Int](LargestStep)
  private var rowsPerMessage = settings.firstMessageRows
  private var sent = false
  private var rowsAreOver = false

  // Only loading states shows how large they are, so they are loaded after every few keys.
  private var loaded = 0 // key indexes whose states are in this message or were sent before
  private var step = FirstStep
  private var bytes = 0L // of the message's rows and states

  /** The current message if it is packed. */
  var packed: Option[PackedBytes] = None

  private def list(name: String) = struct.getChild(name).asInstanceOf[ListVector]

  override def fill(input: Iterator[InternalRow]): Boolean =
    if (live.exists(_.timersFirst())) {
      send(fillTimers(live.get.passed))
      true
    } else if (input.hasNext) {
      send(fillRows(input))
      true
    } else if (live.exists(!_.isOver)) {
      send(()) // closes a cache epoch
      true
    } else if (lease.use(hasNext(dueTimers))) {
      rowsAreOver = true
      send(fillTimers(dueTimers))
      true
    } else if (operatorState.nonEmpty && !sent) {
      // Every subtask takes part in a checkpoint, also one without rows.
      send(())
      true
    } else
      false

  private def send(fillIn: => Unit): Unit = {
    lease.use {
      val full = keyIndexes.size >= settings.maxCachedKeys ||
        cacheEpochs.cachedBytes >= settings.cachedBytes || live.exists(_.isOld)
      if (full && cacheEpochs.previousKeyIndexes == null) {
        cacheEpochs.open()
        live.foreach(_.opened())
      }
    }
    loaded = keyIndexes.size
    step = FirstStep
    bytes = 0
    sent = true
    parts = if (packs && fewWait) packedParts else arrow
    fillIn
    loadStates()
    live.foreach { turns =>
      cacheEpochs.cachedBytes += bytes
      turns.sent(cacheEpochIsEmpty = keyIndexes.size == 0)
    }
    finish()
  }

  private def keyIndexes = cacheEpochs.currentKeyIndexes

  private def fewWait =
    !rowsAreOver &&
      math.max(live.get.input.waiting, live.get.passed.size) <= PackedParts.MostRows

  /** Adds the states of the keys that came since the last call. */
  private def loadStates(): Unit = {
    val size = lease.use(parts.states.map(_.load(keyIndexes, loaded, carried)).sum)
    bytes += size
    cacheEpochs.cachedBytes += size
    loaded = keyIndexes.size
    step = math.min(4 * step, LargestStep)
  }

  private def fillRows(input: Iterator[InternalRow]): Unit = {
    val most = if (parts eq arrow) rowsPerMessage else PackedParts.MostRows
    while (input.hasNext && parts.rowCount < most && bytes < settings.messageBytes) {
      val row = input.next()
      val from = taskRows.input
      val reader = readerOf(from)
      val keyIndex = keyIndexOf(reader.keys.key(row), reader.keys.group(row))
      parts.addRow(from, keyIndex, reader.toColumns(row))
      bytes += (row match {
        case unsafe: UnsafeRow => unsafe.getSizeInBytes
        case _ => settings.messageBytes / settings.messageRows
      })
    }
    rowsPerMessage = math.min(rowsPerMessage * 2, settings.messageRows)
  }

  /** Whether timers that this micro-batch has set are sent too. Otherwise the worker fires them, or
    * asks for all that are left.
    */
  private val sendsSet = answersTimers || live.nonEmpty

  private def hasNext(timers: DueTimers) = if (sendsSet) timers.nonEmpty else timers.hasStored

  private def fillTimers(timers: DueTimers): Unit = {
    var count = 0
    while (hasNext(timers) && count < settings.messageRows && bytes < settings.messageBytes) {
      val timer = if (sendsSet) timers.dequeue() else timers.dequeueStored()
      timerKey.pointTo(timer.key, timer.key.length)
      val gone = !lease.use(task.timers.get.take(timer))
      if (!gone || mayBeSetAgain(timerKey))
        parts.addTimer(keyIndexOf(timerKey, timer.group), timer, gone)
      count += 1
    }
  }

  /** Whether a deleted timer of the key may have been set again since, because not all of the
    * worker's changes of the key were read. In real-time mode a later lookup finds such timers.
    */
  private def mayBeSetAgain(key: UnsafeRow): Boolean = live.isEmpty && {
    val hash = key.hashCode
    val before =
      cacheEpochs.previousKeyIndexes // in a batch query another thread may set it to null
    keyIndexes.find(key, hash) >= 0 || before != null && before.find(key, hash) >= 0
  }

  private def keyIndexOf(key: UnsafeRow, group: => Int): Int = {
    val hash = key.hashCode
    val known = keyIndexes.find(key, hash)
    if (known >= 0)
      known
    else {
      val keyIndex = keyIndexes.add(key, hash, group)
      val before =
        cacheEpochs.previousKeyIndexes // in a batch query another thread may set it to null
      val old = if (before == null) -1 else before.find(key, hash)
      carried(keyIndex - loaded) = old
      parts.addKey(key, old)
      if (keyIndexes.size - loaded == step) loadStates()
      keyIndex
    }
  }

  private def finish(): Unit = {
    val now = control()
    val news = if (told eq now) Nil else now.obj
    told = now
    packed =
      if (parts eq arrow) None
      else
        Some(
          packedParts
            .finish(cacheEpochs.current, live.get.time, if (news.isEmpty) Nothing else json(news))
        )
    if (packed.isEmpty) finishArrow(news)
  }

  private def finishArrow(news: List[JField]): Unit = {
    // In real-time mode each answer has the timers that were set, so there the JVM finds them all.
    val tells = answersTimers || live.nonEmpty && rowsAreOver
    val left = Option.when(tells)(Protocol.Control.TimersLeft -> JBool(dueTimers.nonEmpty))
    val ofMessage = (Protocol.Control.CacheEpoch -> JInt(cacheEpochs.current)) ::
      live.toList.map(turns => Protocol.Control.ProcessingTime -> JInt(turns.time)) :::
      left.toList
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

private object RowSender {

  /** After how many new keys of a message states are loaded: at first, and at most. */
  private val FirstStep = 16
  private val LargestStep = 256

  private val Nothing = Array.emptyByteArray
}
