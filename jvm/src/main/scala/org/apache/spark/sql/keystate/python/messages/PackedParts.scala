package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types._

import org.apache.spark.sql.keystate.spec.{OperatorSpec, StateKind}
import org.apache.spark.sql.keystate.state.Timer

/** The parts of a message of few rows, as Spark holds them in memory. So they are copied, and not
  * converted: a message of one row in Arrow has some thirty buffers, and writing and reading them
  * takes longer than most functions.
  */
private[keystate] final class PackedParts(values: Seq[ValueStateColumns]) extends MessageParts {
  private val keyIndexes = new PackedBytes
  private val carriedKeyIndexes = new PackedBytes
  private val rows = new PackedBytes
  private val keys = new PackedBytes
  private val ofStates = values.map(_ => new PackedBytes)
  private val timers = new PackedBytes
  private val sections = Seq(rows, keys) ++ ofStates :+ timers
  private val parts = Seq(keyIndexes, carriedKeyIndexes) ++ sections
  private val message = new PackedBytes
  private var rowsAdded = 0
  private var keysAdded = 0

  override val states: Seq[StateSender] = values.zip(ofStates).map { case (value, bytes) =>
    value.packedSender(bytes)
  }

  override def rowCount: Int = rowsAdded

  override def addRow(input: Int, keyIndex: Int, row: InternalRow): Unit = {
    keyIndexes.addInt(keyIndex)
    rows.addRow(row.asInstanceOf[UnsafeRow])
    rowsAdded += 1
  }

  override def addKey(key: UnsafeRow, carried: Int): Unit = {
    carriedKeyIndexes.addInt(carried)
    keys.addRow(key)
    keysAdded += 1
  }

  override def addTimer(keyIndex: Int, timer: Timer, gone: Boolean): Unit = {
    timers.addInt(keyIndex)
    timers.addInt(TimerColumns.domain(timer, gone))
    timers.addLong(timer.time)
  }

  /** The whole message.
    *
    * @param control
    *   JSON of other news, or nothing
    */
  def finish(cacheEpoch: Int, time: Long, control: Array[Byte]): PackedBytes = {
    message.clear()
    message.addInt(PackedBytes.Rows)
    message.addInt(cacheEpoch)
    message.addLong(time)
    message.addInt(rowsAdded)
    message.addInt(keysAdded)
    message.addInt(sections.size + 1)
    sections.foreach(section => message.addInt(section.size))
    message.addInt(control.length)
    parts.foreach(message.add)
    message.add(control, 0, control.length)
    message
  }

  override def reset(): Unit = {
    parts.foreach(_.clear())
    states.foreach(_.reset())
    rowsAdded = 0
    keysAdded = 0
  }
}

private[keystate] object PackedParts {

  /** More rows than this, or timers, are sent as Arrow, which is faster for them. */
  final val MostRows = 64

  private final val MostFields = 64

  /** Whether an operator's messages can be packed. All other messages are sent as Arrow. */
  def fit(spec: OperatorSpec, rows: StructType, keys: StructType, output: StructType): Boolean =
    !spec.sideOutputs && !spec.rowHandling.columns && spec.broadcast.isEmpty &&
      spec.states.forall(state => state.kind == StateKind.Value && isFlat(state.rowSchema)) &&
      Seq(rows, keys, output).forall(isFlat)

  private def isFlat(row: StructType): Boolean =
    row.nonEmpty && row.size <= MostFields && row.forall(_.dataType match {
      case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType |
          TimestampType | StringType | BinaryType =>
        true
      case _ => false
    })
}
