package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.vectorized.ArrowColumnVector
import org.apache.spark.unsafe.Platform

import org.apache.spark.sql.keystate.encoding.{ArrowStreams, OpenStream}
import org.apache.spark.sql.keystate.state.{TimerKeys, Timers}

/** Reads answers that are bytes. The columns of one last until the next one is read.
  *
  * @param fields
  *   the number of the output's columns
  */
private[keystate] final class PackedAnswers(
    fields: Int,
    streams: ArrowStreams,
    context: TaskContext
) {
  private var open: OpenStream = _ // of the last answer, or null

  context.addTaskCompletionListener[Unit](_ => closeLast())

  /** A packed answer, or the columns of an Arrow answer. */
  def read(bytes: Array[Byte]): Either[PackedAnswer, String => ArrowColumnVector] = {
    closeLast()
    if (PackedBytes.intAt(bytes, 0) == PackedBytes.Rows) Left(new PackedAnswer(bytes, fields))
    else {
      open = streams.open(bytes, start = 4)
      val root = open.root
      Right(name => new ArrowColumnVector(root.getVector(name)))
    }
  }

  private def closeLast(): Unit = if (open != null) {
    open.close()
    open = null
  }
}

/** Results, and timers that were set or deleted.
  * {{{
  * [int32 kind][int32 cache epoch][int32 rows][int32 timers]
  * timers   [int32 key index][int16 domain][int16 set][int64 time]
  * rows     [int64 length][row]
  * }}}
  */
private[keystate] final class PackedAnswer(bytes: Array[Byte], fields: Int) {
  import PackedAnswer._

  /** The cache epoch of the key indexes of the timers. */
  def cacheEpoch: Int = PackedBytes.intAt(bytes, 4)

  def timers: Int = PackedBytes.intAt(bytes, 12)

  /** The rows, one after the other in the same object. */
  def rows: Iterator[UnsafeRow] = {
    val row = new UnsafeRow(fields)
    var at = HeadBytes + timers * TimerBytes
    Iterator.range(0, PackedBytes.intAt(bytes, 8)).map { _ =>
      val length = PackedBytes.longAt(bytes, at).toInt
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at + 8, length)
      at += 8 + length
      row
    }
  }

  def setTimers(timers: Timers, keyIndexes: KeyIndexes): Unit =
    (0 until this.timers).foreach { i =>
      val at = HeadBytes + i * TimerBytes
      val keyIndex = PackedBytes.intAt(bytes, at)
      val flags = PackedBytes.intAt(bytes, at + 4)
      val time = PackedBytes.longAt(bytes, at + 8)
      val domain = TimerKeys.domain(flags.toByte)
      TimerColumns.change(timers, domain, time, keyIndexes, keyIndex, flags >>> 16)
    }
}

private object PackedAnswer {
  private final val HeadBytes = 16
  private final val TimerBytes = 16
}
