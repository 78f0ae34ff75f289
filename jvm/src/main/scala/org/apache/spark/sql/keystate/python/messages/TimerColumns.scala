package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{ByteType, IntegerType, LongType, StructField}
import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.TimeDomain
import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.{Timer, Timers}

/** The message columns of the timers that fire. */
private[keystate] final class TimerColumns(list: String => ListVector) {
  private val lists =
    Seq(
      Protocol.Message.TimerKeyIndexes,
      Protocol.Message.TimerDomains,
      Protocol.Message.TimerTimes
    )
      .map(list)
  private val columns = lists.map(new ValueColumn(_))
  private val holder = new GenericInternalRow(3)

  def add(keyIndex: Int, timer: Timer, gone: Boolean): Unit = {
    holder.setInt(0, keyIndex)
    holder.setByte(1, TimerColumns.domain(timer, gone).toByte)
    holder.setLong(2, timer.time)
    columns.zipWithIndex.foreach { case (column, i) =>
      column.writer.write(holder, i)
      column.added(1)
    }
  }

  def finish(): Unit = columns.foreach(_.finish())
  def reset(): Unit = columns.foreach(_.reset())
}

private[keystate] object TimerColumns {

  /** The number added to the domain of a timer that is gone. */
  private final val Gone = 2

  /** A timer's domain in a message to the worker. */
  def domain(timer: Timer, gone: Boolean): Int =
    Timers.number(timer.domain) + (if (gone) Gone else 0)

  /** The columns of timers in a message to the worker. */
  val sentFields: Seq[StructField] = Seq(
    StateColumns.list(Protocol.Message.TimerKeyIndexes, IntegerType),
    StateColumns.list(Protocol.Message.TimerDomains, ByteType),
    StateColumns.list(Protocol.Message.TimerTimes, LongType)
  )

  // A worker's marks for a timer.
  private final val Deleted = 0
  private final val Waits = 2 // it is set, and waits for the next micro-batch

  /** Sets or deletes a timer of the key of an index. */
  def change(
      timers: Timers,
      domain: TimeDomain,
      time: Long,
      keyIndexes: KeyIndexes,
      keyIndex: Int,
      how: Int
  ): Unit =
    timers.set(
      domain,
      time,
      keyIndexes.group(keyIndex),
      keyIndexes.key(keyIndex),
      how != Deleted,
      how == Waits
    )

  /** Sets and deletes timers as a message from the worker says. */
  def apply(timers: Timers, keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): Unit = {
    val changed = columns(Protocol.Answer.TimerKeyIndex).getArray(0)
    val domains = columns(Protocol.Answer.TimerDomain).getArray(0)
    val times = columns(Protocol.Answer.TimerTime).getArray(0)
    val set = columns(Protocol.Answer.TimerSet).getArray(0)
    var i = 0
    while (i < changed.numElements()) {
      val keyIndex = changed.getInt(i)
      val domain = Timers.domain(domains.getByte(i))
      change(timers, domain, times.getLong(i), keyIndexes, keyIndex, set.getByte(i).toInt)
      i += 1
    }
  }
}
