package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{ByteType, IntegerType, LongType, StructField}
import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.TimeDomain
import org.apache.spark.sql.keystate.encoding.WindowNamespace
import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.{Timer, TimerKeys, Timers}

/** The message columns of the timers that fire.
  *
  * @param windows
  *   whether each belongs to a window
  */
private[keystate] final class TimerColumns(list: String => ListVector, windows: Boolean) {
  private val columns =
    TimerColumns.sentFields(windows).map(field => new ValueColumn(list(field.name))).toArray
  private val holder = new GenericInternalRow(columns.length)

  def add(keyIndex: Int, timer: Timer, gone: Boolean): Unit = {
    holder.setInt(0, keyIndex)
    holder.setByte(1, TimerColumns.domain(timer, gone).toByte)
    holder.setLong(2, timer.time)
    if (windows) {
      holder.setLong(3, WindowNamespace.endOf(timer.namespace))
      holder.setLong(4, WindowNamespace.startOf(timer.namespace))
    }
    var i = 0
    while (i < columns.length) {
      columns(i).writer.write(holder, i)
      columns(i).added(1)
      i += 1
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
    TimerKeys.number(timer.domain) + (if (gone) Gone else 0)

  /** The columns of timers in a message to the worker. */
  def sentFields(windows: Boolean): Seq[StructField] = {
    import Protocol.Message._
    val ofAll = Seq(
      StateColumns.list(TimerKeyIndexes, IntegerType),
      StateColumns.list(TimerDomains, ByteType),
      StateColumns.list(TimerTimes, LongType)
    )
    if (!windows) ofAll
    else
      ofAll ++ Seq(TimerWindowEnds, TimerWindowStarts).map(StateColumns.list(_, LongType))
  }

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
      how: Int,
      namespace: Array[Byte] = Timer.NoNamespace
  ): Unit =
    timers.set(
      domain,
      time,
      keyIndexes.group(keyIndex),
      keyIndexes.key(keyIndex),
      how != Deleted,
      how == Waits,
      namespace
    )

  /** Sets and deletes timers as a message from the worker says. */
  def apply(timers: Timers, keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): Unit = {
    import Protocol.Answer._
    val changed = columns(TimerKeyIndex).getArray(0)
    val domains = columns(TimerDomain).getArray(0)
    val times = columns(TimerTime).getArray(0)
    val set = columns(TimerSet).getArray(0)
    val namespaceOf: Int => Array[Byte] =
      if (!timers.windows) _ => Timer.NoNamespace
      else {
        val ends = columns(TimerWindowEnd).getArray(0)
        val starts = columns(TimerWindowStart).getArray(0)
        i => WindowNamespace(ends.getLong(i), starts.getLong(i))
      }
    var i = 0
    while (i < changed.numElements()) {
      val keyIndex = changed.getInt(i)
      val domain = TimerKeys.domain(domains.getByte(i))
      val how = set.getByte(i).toInt
      change(timers, domain, times.getLong(i), keyIndexes, keyIndex, how, namespaceOf(i))
      i += 1
    }
  }
}
