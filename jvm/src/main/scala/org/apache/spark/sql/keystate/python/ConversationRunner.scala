package org.apache.spark.sql.keystate.python

import java.io.DataOutputStream
import java.net.StandardSocketOptions.TCP_NODELAY
import java.nio.channels.Channels

import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.ipc.{ArrowStreamWriter, WriteChannel}

import org.apache.spark.api.python.{PythonEvalType, PythonWorker}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.{SparkEnv, TaskContext}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.shim.ArrowRunnerShim

/** Runs a keyed task's Python function in Spark's stock worker, as a map-in-arrow function. Its
  * Arrow batches are the messages of a conversation.
  *
  * Relies on `BaseArrowPythonRunner`, which
  *   - starts the worker, or takes a running one;
  *   - requests input by `writeNextBatchToArrowStream`, on the task's thread, whenever the worker
  *     can take more;
  *   - passes each Arrow batch that comes back to `deserializeColumnarBatch`.
  */
private[keystate] class ConversationRunner(
    function: WorkerFunction,
    messageSchema: StructType,
    conversation: Conversation
) extends ArrowRunnerShim(
      function.chained,
      PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
      messageSchema,
      function.timeZoneId,
      WorkerFunction.LargeVarTypes,
      function.conf,
      function.metrics,
      function.jobArtifactUUID
    ) {

  private lazy val sender = {
    ArrowStreams.allocate(root)
    conversation.sender(root)
  }
  private var closed = false

  /** For a task that ends early, by failure or `limit`, and never reaches the end of the input. */
  Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit] { _ =>
    if (!closed) {
      root.close()
      allocator.close()
    }
  })

  override def compute(
      input: Iterator[InternalRow],
      partition: Int,
      context: TaskContext
  ): Iterator[ColumnarBatch] = {
    val answers = super.compute(input, partition, context)
    new Iterator[ColumnarBatch] {
      override def hasNext: Boolean = FunctionFailure.told(answers.hasNext)
      override def next(): ColumnarBatch = FunctionFailure.told(answers.next())
    }
  }

  /** Makes each message go out immediately. Otherwise a small one would wait until the worker's
    * system has acknowledged the one before, which takes 40 ms if the worker sends nothing.
    */
  override protected def newWriter(
      env: SparkEnv,
      worker: PythonWorker,
      inputIterator: Iterator[InternalRow],
      partitionIndex: Int,
      context: TaskContext
  ): Writer = {
    val channel = worker.channel
    if (channel.supportedOptions.contains(TCP_NODELAY))
      channel.setOption(TCP_NODELAY, Boolean.box(true))
    super.newWriter(env, worker, inputIterator, partitionIndex, context)
  }

  override protected def writeNextBatchToArrowStream(
      root: VectorSchemaRoot,
      writer: ArrowStreamWriter,
      dataOut: DataOutputStream,
      input: Iterator[InternalRow]
  ): Boolean =
    if (sender.fill(input)) {
      val before = dataOut.size()
      val batch = unloader.getRecordBatch
      try
        MessageSerializer.serialize(new WriteChannel(Channels.newChannel(dataOut)), batch)
      finally batch.close()
      sender.reset()
      function.metrics("pythonDataSent") += dataOut.size() - before
      true
    } else {
      closed = true
      close()
      false
    }

  override protected def deserializeColumnarBatch(
      batch: ColumnarBatch,
      schema: StructType
  ): ColumnarBatch = batch
}
