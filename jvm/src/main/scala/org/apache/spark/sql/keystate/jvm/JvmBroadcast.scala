package org.apache.spark.sql.keystate.jvm

import java.util.UUID

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import keystate.errors.KeystateErrors
import keystate.{
  BroadcastState, Collector, KeyedBroadcastContext, KeyedStateFunction, MapStateDescriptor,
  OutputTag, State, StateDescriptor
}
import org.apache.spark.sql.keystate.jvm.state.{CurrentKey, JvmBroadcastState, JvmStateSpec}
import org.apache.spark.sql.keystate.operator.{EventTimeReader, OperatorTaskContext}

/** The broadcast side of a JVM function.
  *
  * @param element
  *   the encoder of broadcast elements, bound to the columns that are broadcast
  */
private[keystate] final case class JvmBroadcastSpec(
    element: ExpressionEncoder[Any],
    states: Seq[JvmStateSpec]
)

/** Processes the broadcast elements of a JVM function's subtask. */
private[keystate] final class JvmBroadcast(
    declared: JvmBroadcastSpec,
    calls: FunctionCalls,
    keyed: Seq[JvmStateSpec],
    runtime: TaskRuntimeContext,
    cursor: CurrentKey,
    currentKey: () => Any,
    emit: (OutputTag[_], Any) => Unit
) {
  private val toElement = declared.element.createDeserializer()
  private var context: OperatorTaskContext = _
  private var eventTime: EventTimeReader = _
  private var row: InternalRow = _ // of the current element; null outside of one
  private var value: Any = _

  private val states = declared.states.map { state =>
    state.spec.name -> new JvmBroadcastState(state, cursor, () => row != null)
  }
  private val byName = states.toMap

  def state(descriptor: MapStateDescriptor[_, _]): JvmBroadcastState =
    byName.getOrElse(
      descriptor.name,
      throw KeystateErrors.noBroadcastState(descriptor.name, states.map(_._1))
    )

  /** Begins a task. Returns its broadcast elements. */
  def enter(context: OperatorTaskContext): Iterator[InternalRow] = {
    this.context = context
    row = null
    states.map(_._2).zip(context.broadcastStates.get.states).foreach { case (state, entries) =>
      state.enter(entries)
    }
    val rows = context.broadcastInput.fold(Iterator.empty[InternalRow]) { input =>
      eventTime = new EventTimeReader(input.columns)
      input.iterator
    }
    // A new tag: a worker that holds the states under the old tag lacks what these elements change.
    if (rows.nonEmpty) context.broadcastStates.get.tag = UUID.randomUUID.toString
    rows
  }

  def process(row: InternalRow, out: Collector[Any]): Unit = {
    value = toElement(row)
    this.row = row
    calls.processBroadcastElement(value, Element, out)
    this.row = null
  }

  /** The element that is being processed, for messages. */
  def where: Any = value

  private object Element extends KeyedBroadcastContext[Any] {
    private var applying = false

    override def timestamp(): java.lang.Long = eventTime.millis(row) match {
      case Long.MinValue => null
      case time => time
    }

    override def output[T](tag: OutputTag[T], result: T): Unit = emit(tag, result)

    override def currentProcessingTime(): Long = context.batch.processingTime.get
    override def currentWatermark(): Long = context.watermark.getOrElse(Long.MinValue)

    override def getBroadcastState[K, V](
        descriptor: MapStateDescriptor[K, V]
    ): BroadcastState[K, V] = state(descriptor).asInstanceOf[BroadcastState[K, V]]

    override def applyToKeyedState[S <: State](
        descriptor: StateDescriptor[S],
        function: KeyedStateFunction[Any, S]
    ): Unit = {
      if (row == null || applying) throw KeystateErrors.notInBroadcastElement()
      val index = keyed.indexWhere(_.spec.name == descriptor.name)
      if (index < 0)
        throw KeystateErrors.declaration(
          s"'${descriptor.name}' is no keyed state: get every state in open."
        )
      val found = runtime.stateOf(descriptor)
      val key = new UnsafeRow(context.columns.grouping.length)
      applying = true
      try
        cursor.entriesOf(index).keys(context.batch.maxParallelism).foreach { case (group, bytes) =>
          key.pointTo(bytes, bytes.length)
          cursor.moveTo(key, group)
          function.process(currentKey(), found)
          cursor.leave()
        }
      finally applying = false
    }
  }
}
