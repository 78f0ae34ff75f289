package org.apache.spark.sql.keystate.realtime

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.util.UninterruptibleThread

/** Reads a task's input, which in real-time mode waits for rows until the batch ends. Relies on
  * Spark's readers working in any thread that has the task's context; some want it to be an
  * `UninterruptibleThread`. The thread ends with the task at the latest.
  */
private[keystate] final class InputThread(
    rows: Iterator[InternalRow],
    columns: Seq[Attribute],
    handover: RowHandover,
    context: TaskContext
) extends UninterruptibleThread(s"keystate-input-${context.taskAttemptId()}") {
  setDaemon(true)
  context.addTaskCompletionListener[Unit] { _ =>
    handover.close()
    interrupt()
    join(InputThread.EndMillis)
  }

  override def run(): Unit = {
    TaskContext.setTaskContext(context)
    try {
      lazy val toUnsafe = UnsafeProjection.create(columns, columns)
      var wanted = true
      while (wanted && rows.hasNext)
        wanted = handover.put(rows.next() match {
          case row: UnsafeRow => row
          case other => toUnsafe(other)
        })
      handover.end(null)
    } catch {
      case error: Throwable => handover.end(error)
    } finally TaskContext.unset()
  }
}

private object InputThread {
  private final val EndMillis = 5000L
}
