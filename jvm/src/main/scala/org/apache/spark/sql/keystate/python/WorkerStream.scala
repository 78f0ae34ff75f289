package org.apache.spark.sql.keystate.python

import java.io.{DataOutputStream, InputStream}
import java.nio.ByteBuffer
import java.nio.channels.SelectionKey.{OP_READ, OP_WRITE}

import org.apache.spark.TaskContext
import org.apache.spark.api.python.PythonWorker
import org.apache.spark.util.DirectByteBufferOutputStream

/** What is said to a worker, and when. */
private[keystate] trait Turns {

  /** Writes what is to be sent now, if anything is. All that was written before has been sent. */
  def write(out: DataOutputStream): Unit

  /** After how many ms there may be something to write, if nothing comes in before; 0 is never. */
  def pauseMillis: Long
}

/** The answers of a worker. Where Spark's own stream blocks until there is input to send, this one
  * waits for an answer, for input, and for the clock all at once, in one `select`. So an answer is
  * read at once, and a message is sent at once. While it waits it uses no CPU.
  *
  * Relies on the worker's channel not blocking and being registered with its selector, as Spark
  * hands out workers.
  */
private[keystate] final class WorkerStream(worker: PythonWorker, turns: Turns, context: TaskContext)
    extends InputStream {
  private val buffer = new DirectByteBufferOutputStream()
  private val out = new DataOutputStream(buffer)
  private var unsent: ByteBuffer = ByteBuffer.allocate(0)
  private val one = new Array[Byte](1)

  context.addTaskCompletionListener[Unit](_ => buffer.close())

  override def read(): Int = if (read(one, 0, 1) <= 0) -1 else one(0) & 0xff

  override def read(bytes: Array[Byte], offset: Int, length: Int): Int = {
    val target = ByteBuffer.wrap(bytes, offset, length)
    var count = worker.channel.read(target)
    while (count == 0) {
      send()
      await()
      count = worker.channel.read(target)
    }
    count
  }

  private def send(): Unit = {
    var accepts = true
    while (accepts) {
      if (!unsent.hasRemaining) {
        buffer.reset()
        turns.write(out)
        unsent = buffer.toByteBuffer
      }
      if (unsent.hasRemaining) worker.channel.write(unsent)
      accepts = !unsent.hasRemaining && buffer.size() > 0
    }
  }

  private def await(): Unit = {
    val full = unsent.hasRemaining
    worker.selectionKey.interestOps(if (full) OP_READ | OP_WRITE else OP_READ)
    worker.selector.selectedKeys().clear()
    worker.selector.select(if (full) 0 else turns.pauseMillis)
    context.killTaskIfInterrupted()
  }

  /** Has the stream look for input; for any thread. */
  def wakeUp(): Unit =
    worker.selector.wakeup(): Unit
}
