package org.apache.spark.sql.keystate.realtime

import java.util.concurrent.Semaphore
import java.util.concurrent.TimeUnit.MILLISECONDS

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}

import org.apache.spark.sql.keystate.metrics.MetricValues
import org.apache.spark.sql.keystate.state.DueTimers

/** The input of a function in this JVM in real-time mode: rows as they come, and timers as the
  * clock passes them. As an iterator it has the rows that have arrived; only `await` waits.
  *
  * This reads the clock: a batch that is processed again sees other times.
  *
  * @param input
  *   all rows of the batch, with these columns; it is read in another thread
  * @param passed
  *   timers that the clock has passed, which are to be fired
  * @param timers
  *   adds to `passed`; None if the function has no timers
  */
private[keystate] final class LiveRows(
    input: Iterator[InternalRow],
    columns: Seq[Attribute],
    val passed: DueTimers,
    timers: Option[LiveTimers],
    context: TaskContext
) extends Iterator[UnsafeRow] {
  private val ready = new Semaphore(0)
  private val latencies = new RowLatencies
  private val rows =
    new RowHandover(columns.size, RowHandover.InputBytes, latencies, () => ready.release())
  private var inRound = false // whether timers were looked up that may not have fired yet
  private var roundBegan = 0L
  private var rowsUntil = System.nanoTime
  private var began = 0L // when the row that is processed was taken

  new InputThread(input, columns, rows, context).start()

  override def hasNext: Boolean = rows.hasNext

  override def next(): UnsafeRow = {
    val row = rows.next()
    began = System.nanoTime
    row
  }

  /** Says that the function has had the last row. */
  def processed(): Unit = latencies.processed(began, System.nanoTime)

  /** Whether all rows were taken and no more come. */
  def isOver: Boolean = rows.isOver

  /** Whether the next step is to fire a due timer. Looks up those that the clock has passed. While
    * rows wait, they get at least as much time as timers. So even if timers keep setting timers for
    * the past, rows and the end of the batch get their turn.
    */
  def timerIsNext(): Boolean = {
    if (passed.isEmpty) {
      if (inRound) {
        val now = System.nanoTime
        rowsUntil = now + (now - roundBegan)
        inRound = false
      }
      timers.filter(_.areDue && mayLookUp).foreach { live =>
        inRound = true
        roundBegan = System.nanoTime
        live.lookUp()
      }
    }
    passed.nonEmpty
  }

  private def mayLookUp: Boolean =
    if (hasNext) System.nanoTime - rowsUntil >= 0 else !isOver

  /** Waits until there may be something to do, and uses no CPU meanwhile. Not to be called under the
    * lease of the backend.
    */
  def await(): Unit = {
    val first = timers.fold(LiveTimers.Never)(_.first)
    if (first == LiveTimers.Never) ready.acquire()
    else
      ready.tryAcquire(first - System.currentTimeMillis, MILLISECONDS): Unit
    ready.drainPermits(): Unit
    context.killTaskIfInterrupted()
  }

  /** How long the rows took so far. */
  def metrics: MetricValues = latencies.values
}
