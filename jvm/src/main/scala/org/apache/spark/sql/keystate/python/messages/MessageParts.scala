package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.Timer

/** The rows, keys and states of a message, in either of its forms. */
private[keystate] trait MessageParts {

  /** The senders of the states, in their order. */
  def states: Seq[StateSender]

  def rowCount: Int

  /** Adds a row.
    *
    * @param input
    *   the index of the input that it is of
    */
  def addRow(input: Int, keyIndex: Int, row: InternalRow): Unit

  /** Adds a new key.
    *
    * @param carried
    *   its key index in the last cache epoch, or -1
    */
  def addKey(key: UnsafeRow, carried: Int): Unit

  /** Adds a timer that is due.
    *
    * @param gone
    *   whether it was deleted in this micro-batch: it fires if the worker has set it again since
    */
  def addTimer(keyIndex: Int, timer: Timer, gone: Boolean): Unit

  /** Empties the message for the next one. */
  def reset(): Unit
}

/** A message's parts as columns of Arrow. A message is one row, whose columns are lists. */
private[keystate] final class ArrowParts(
    list: String => ListVector,
    inputCount: Int,
    stateColumns: Seq[StateColumns],
    due: Option[TimerColumns]
) extends MessageParts {
  // A column for the rows of each input: so no row has the columns of another input.
  private val rows =
    ArrowParts.RowColumns.take(inputCount).map(name => new RowColumn(list(name))).toArray
  private val inputs = Option.when(inputCount > 1)(new IntColumn(list(Protocol.Message.Inputs)))
  private val keyIndexes = new IntColumn(list(Protocol.Message.KeyIndexes))
  private val keys = new RowColumn(list(Protocol.Message.Keys))
  private val carriedKeyIndexes = new IntColumn(list(Protocol.Message.Carried))
  private val columns = rows.toSeq ++ inputs ++ Seq(keyIndexes, keys, carriedKeyIndexes)

  override val states: Seq[StateSender] = stateColumns.map(_.sender(list))

  override def rowCount: Int = keyIndexes.count

  override def addRow(input: Int, keyIndex: Int, row: InternalRow): Unit = {
    keyIndexes.add(keyIndex)
    rows(input).add(row)
    if (inputs.nonEmpty) inputs.get.add(input)
  }

  override def addKey(key: UnsafeRow, carried: Int): Unit = {
    carriedKeyIndexes.add(carried)
    keys.add(key)
  }

  override def addTimer(keyIndex: Int, timer: Timer, gone: Boolean): Unit =
    due.get.add(keyIndex, timer, gone)

  /** Closes the columns once everything was added. */
  def finish(): Unit = {
    columns.foreach(_.finish())
    states.foreach(_.finish())
    due.foreach(_.finish())
  }

  override def reset(): Unit = {
    columns.foreach(_.reset())
    states.foreach(_.reset())
    due.foreach(_.reset())
  }
}

private[keystate] object ArrowParts {

  /** The columns of rows, by the index of the input. */
  val RowColumns: Seq[String] = Seq(Protocol.Message.Rows, Protocol.Message.SecondRows)
}
