package org.apache.spark.sql.keystate.realtime

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Passes rows from the thread that reads a task's input to the task's own. The rows are copied
  * into one of two pages while the other one is read, so no row needs an object. A full page makes
  * the reading thread wait: so a slow function slows its source down.
  *
  * As an iterator it is for the task's thread, and never waits: it ends where no row has arrived
  * yet.
  *
  * @param latencies
  *   receives the arrival times of the rows that are read
  * @param ready
  *   called, in the input's thread, when there is something after there was nothing: a row, or the
  *   end
  */
private[keystate] final class RowHandover(
    fields: Int,
    maxBytes: Int,
    latencies: RowLatencies,
    ready: () => Unit
) extends Iterator[UnsafeRow] {
  import RowHandover._

  private val lock = new Object
  private var filling = new Page // under the lock
  private var reading = new Page // the task's thread only
  private var next_ = 0 // of the rows of the page that is read
  private val row = new UnsafeRow(fields)

  private var over = false // no more rows come; under the lock
  private var failure: Throwable = _
  private var closed = false

  /** Adds a row; waits while there are too many. False if nobody will read it. */
  def put(row: UnsafeRow): Boolean = {
    var first = false
    val open = lock.synchronized {
      while (filling.used >= maxBytes && !closed) lock.wait()
      if (!closed) {
        first = filling.count == 0
        filling.add(row)
      }
      !closed
    }
    if (first) ready()
    open
  }

  /** Says that no more rows come.
    *
    * @param error
    *   what reading them failed with, or null
    */
  def end(error: Throwable): Unit = {
    lock.synchronized {
      over = true
      failure = error
    }
    ready()
  }

  /** Lets the input's thread go on, and end. */
  def close(): Unit = lock.synchronized {
    closed = true
    lock.notifyAll()
  }

  /** Throws what reading the input failed with, once the rows before that were read. */
  override def hasNext: Boolean = next_ < reading.count || turnPage()

  override def next(): UnsafeRow = {
    if (!hasNext) throw new NoSuchElementException
    reading.point(row, next_)
    latencies.read(reading.arrival(next_))
    next_ += 1
    row
  }

  /** How many rows wait. */
  def waiting: Int = reading.count - next_ + lock.synchronized(filling.count)

  /** Whether all rows were read and no more come. Throws like [[hasNext]]. It checks both in one
    * step, because the input may fail at any time.
    */
  def isOver: Boolean = next_ >= reading.count && lock.synchronized(!turnPage() && over)

  private def turnPage(): Boolean = lock.synchronized {
    if (filling.count == 0) {
      if (failure != null) throw failure
      false
    } else {
      val page = reading
      reading = filling
      next_ = 0
      page.clear()
      filling = page
      lock.notifyAll()
      true
    }
  }
}

private[keystate] object RowHandover {

  /** How much of a task's input waits at most in either of two pages. */
  final val InputBytes = 1 << 20

  private final class Page {
    private var bytes = new Array[Byte](1 << 14)
    private var ends = new Array[Int](1 << 8)
    private var arrivals = new Array[Long](1 << 8)
    var count = 0
    def used: Int = if (count == 0) 0 else ends(count - 1)

    def add(row: UnsafeRow): Unit = {
      val start = used
      val end = start + row.getSizeInBytes
      if (end > bytes.length) bytes = Arrays.copyOf(bytes, math.max(end, 2 * bytes.length))
      if (count == ends.length) {
        ends = Arrays.copyOf(ends, 2 * count)
        arrivals = Arrays.copyOf(arrivals, 2 * count)
      }
      row.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET + start)
      ends(count) = end
      arrivals(count) = System.nanoTime
      count += 1
    }

    def point(row: UnsafeRow, i: Int): Unit = {
      val start = if (i == 0) 0 else ends(i - 1)
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + start, ends(i) - start)
    }

    def arrival(i: Int): Long = arrivals(i)

    def clear(): Unit = count = 0
  }
}
