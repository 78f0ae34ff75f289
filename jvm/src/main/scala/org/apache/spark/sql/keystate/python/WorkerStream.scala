package org.apache.spark.sql.keystate.python

import java.io.{DataOutputStream, InputStream}
import java.nio.ByteBuffer
import java.nio.channels.SelectionKey.{OP_READ, OP_WRITE}

import org.apache.spark.TaskContext
import org.apache.spark.api.python.PythonWorker
import org.apache.spark.util.DirectByteBufferOutputStream

/** Decides what to send to a worker, and when. */
private[keystate] trait Turns {

  /** Writes the next message, if there is one. Everything written before has been sent. */
  def write(out: DataOutputStream): Unit

  /** After how many ms there may be something to write without further input; 0 means never. */
  def pauseMillis: Long
}

/** The answers of a worker. Spark's own stream blocks until there is input to send; this one waits
  * for an answer, for input, and for the clock in one `select`. So answers are read and messages
  * are sent without delay. While it waits it uses no CPU.
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
