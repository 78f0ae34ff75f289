package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.catalyst.InternalRow

import keystate.errors.KeystateErrors
import keystate.{BroadcastOnTimerContext, TimeDomain, TimerService}
import org.apache.spark.sql.keystate.encoding.PlainValues
import org.apache.spark.sql.keystate.jvm.state.CurrentKey
import org.apache.spark.sql.keystate.operator.OperatorTaskContext
import org.apache.spark.sql.keystate.spec.SystemColumnFamilies
import org.apache.spark.sql.keystate.state.{DueTimers, Timer, Timers}

/** The current element or timer, with the facts about it that a function can read. It is the
  * context of all calls of a function, in one task after the other.
  *
  * @param cursor
  *   has the key
  * @param opening
  *   the first task
  */
private[jvm] abstract class CurrentElement(
    function: JvmFunction,
    cursor: CurrentKey,
    opening: OperatorTaskContext
) extends BroadcastOnTimerContext[Any]
    with TimerService
    with WindowedContext {

  /** Converts the columns of an input to its elements. */
  val reader: Array[InternalRow => Any] = function.inputs.map(_.createDeserializer()).toArray

  private val toKey = function.key.createDeserializer()
  private val plainKey = PlainValues.areAllOf(function.key.encoder)
  private val plainInput = function.inputs.map(own => PlainValues.areAllOf(own.encoder)).toArray
  private var keyOf = -1L
  private var currentKey: Any = _

  /** The context of the current task. */
  var context: OperatorTaskContext = opening
  var timers: Option[Timers] = None

  /** The element's columns; null for a timer. */
  var row: InternalRow = _
  var value: Any = _

  /** The index of its input. */
  var input = 0

  /** The firing timer; null for an element. */
  var timer: Timer = _

  cursor.eventTime = () => eventTime

  def read(ofInput: Int, columns: InternalRow): Unit = {
    input = ofInput
    row = columns
    value = reader(ofInput)(columns)
  }

  def moveTo(call: ElementCall): Unit = {
    input = call.input
    row = call.row
    value = call.value
    timer = call.timer
  }

  def key: Any = toKey(cursor.currentRow)

  override def getCurrentKey: Any = {
    if (!cursor.isOpen) throw KeystateErrors.keyOutsideOfCall()
    if (keyOf != cursor.element || !plainKey) {
      currentKey = key
      keyOf = cursor.element
    }
    currentKey
  }

  override def timestamp(): java.lang.Long =
    if (timer != null) timer.time
    else
      rowTime match {
        case Long.MinValue => null
        case time => time
      }

  /** The event time of the element or event-time timer. `Long.MinValue` if there is none. */
  private def eventTime: Long =
    if (timer == null) rowTime
    else if (timer.domain == TimeDomain.EVENT_TIME) timer.time
    else Long.MinValue

  private def rowTime: Long = context.inputs(input).eventTime.millis(row)

  override def timeDomain(): TimeDomain = {
    if (timer == null) throw KeystateErrors.noTimerFires()
    timer.domain
  }

  override def timerService(): TimerService = this

  override def currentProcessingTime(): Long = context.processingTime

  override def currentWatermark(): Long = context.watermark.getOrElse(Long.MinValue)

  override def lateWatermark: Long = context.lateWatermark.getOrElse(Long.MinValue)

  override def namespace: Array[Byte] = timer.namespace

  override def setTimer(
      domain: TimeDomain,
      time: Long,
      namespace: Array[Byte],
      wanted: Boolean
  ): Unit = {
    if (wanted && domain == TimeDomain.EVENT_TIME) checkWatermark()
    set(domain, time, wanted, namespace)
  }

  override def elementAnew: Any = if (plainInput(input)) value else reader(input)(row)

  override def registerEventTimeTimer(time: Long): Unit = {
    checkWatermark()
    set(TimeDomain.EVENT_TIME, time, wanted = true)
  }

  private def checkWatermark(): Unit =
    if (timers.nonEmpty && context.batch.streaming && context.watermark.isEmpty)
      throw KeystateErrors.timerWithoutWatermark(context.spec.name)

  override def registerProcessingTimeTimer(time: Long): Unit =
    set(TimeDomain.PROCESSING_TIME, time, wanted = true)

  override def deleteEventTimeTimer(time: Long): Unit =
    set(TimeDomain.EVENT_TIME, time, wanted = false)

  override def deleteProcessingTimeTimer(time: Long): Unit =
    set(TimeDomain.PROCESSING_TIME, time, wanted = false)

  private def set(
      domain: TimeDomain,
      time: Long,
      wanted: Boolean,
      namespace: Array[Byte] = Timer.NoNamespace
  ): Unit = {
    val own = timers.getOrElse(
      throw KeystateErrors.declaration("Timers need a key, and an onTimer method in the function.")
    )
    cursor.check(SystemColumnFamilies.TimersName)
    own.set(
      domain,
      time,
      cursor.group,
      cursor.key,
      wanted,
      waits = DueTimers.waits(domain, time, by = timer),
      namespace = namespace
    )
  }
}
