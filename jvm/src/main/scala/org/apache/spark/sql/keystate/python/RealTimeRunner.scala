package org.apache.spark.sql.keystate.python

import java.io.{BufferedInputStream, DataInputStream, DataOutputStream}
import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.api.python.PythonWorker
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.{SparkEnv, TaskContext}

import org.apache.spark.sql.keystate.realtime.{InputThread, RowHandover}
import org.apache.spark.sql.keystate.shim.PythonShim

/** Runs a keyed task's Python function in real-time mode: a message is sent once the worker has
  * answered the one before and there is something to send, so messages grow with the waiting rows.
  *
  * Relies on the same as [[ConversationRunner]], and
  *   - that Spark's stream of answers, which is not used, writes to the worker only when it is
  *   read;
  *   - that Spark takes workers by their environment: so those of real-time mode, which send each
  *     answer immediately, are not shared with other queries.
  */
private[keystate] final class RealTimeRunner(
    function: WorkerFunction,
    messageSchema: StructType,
    conversation: RowConversation
) extends ConversationRunner(function, messageSchema, conversation) {
  envVars.put("SPARK_KEYSTATE_REAL_TIME", "1")

  @volatile private var stream: WorkerStream = _ // null until the worker is there

  /** Reads the input in a thread of its own, and gives the worker's answers as they come. */
  def run(
      rows: Iterator[InternalRow],
      columns: Seq[Attribute],
      context: TaskContext
  ): Iterator[ColumnarBatch] = {
    val turns = conversation.live.get
    val input = new RowHandover(
      columns.size,
      RowHandover.InputBytes,
      turns.latencies,
      () => if (stream != null) stream.wakeUp()
    )
    turns.input = input
    new InputThread(rows, columns, input, context).start()
    compute(input, context.partitionId(), context)
  }

  override protected def newWriter(
      env: SparkEnv,
      worker: PythonWorker,
      inputIterator: Iterator[InternalRow],
      partitionIndex: Int,
      context: TaskContext
  ): Writer = new HeldWriter(
    super.newWriter(env, worker, inputIterator, partitionIndex, context),
    env,
    worker,
    inputIterator,
    partitionIndex,
    context
  )

  override protected def newReaderIterator(
      unused: DataInputStream,
      writer: Writer,
      startTime: Long,
      env: SparkEnv,
      worker: PythonWorker,
      handle: Option[PythonShim.WorkerHandle],
      releasedOrClosed: AtomicBoolean,
      context: TaskContext
  ): Iterator[ColumnarBatch] = {
    val messages = new Messages(writer.asInstanceOf[HeldWriter].writer)
    stream = new WorkerStream(worker, messages, context)
    val answers = new DataInputStream(new BufferedInputStream(stream, bufferSize))
    super.newReaderIterator(
      answers,
      writer,
      startTime,
      env,
      worker,
      handle,
      releasedOrClosed,
      context
    )
  }

  private final class Messages(writer: Writer) extends Turns {
    private var begun = false
    private var over = false

    override def write(out: DataOutputStream): Unit =
      if (!begun) {
        begun = true
        writer.open(out)
      } else if (!over && conversation.live.get.isTurn && !writer.writeNextInputToStream(out)) {
        over = true
        writer.close(out)
      }

    override def pauseMillis: Long = if (over) 0 else conversation.live.get.pauseMillis
  }

  /** Leaves the worker's initial data to Keystate's stream, instead of writing it into Spark's. */
  private final class HeldWriter(
      val writer: Writer,
      env: SparkEnv,
      worker: PythonWorker,
      inputIterator: Iterator[InternalRow],
      partitionIndex: Int,
      context: TaskContext
  ) extends Writer(env, worker, inputIterator, partitionIndex, context) {
    override def open(dataOut: DataOutputStream): Unit = ()
    override protected def writeCommand(dataOut: DataOutputStream): Unit = writeUDF(dataOut)
    override def writeNextInputToStream(dataOut: DataOutputStream): Boolean =
      writer.writeNextInputToStream(dataOut)
  }
}
