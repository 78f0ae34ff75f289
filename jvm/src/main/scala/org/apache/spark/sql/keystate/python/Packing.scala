package org.apache.spark.sql.keystate.python

import java.io.OutputStream

import org.apache.arrow.vector.VectorSchemaRoot

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{BinaryType, StructField, StructType}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.columns.{PackedAnswers, PackedBytes}
import org.apache.spark.sql.keystate.python.protocol.Protocol

/** Messages and answers as bytes, in one column: in real-time mode, where most have one row. A
  * message of many rows is an Arrow stream in the bytes.
  *
  * @param schema
  *   of the messages that are Arrow
  * @param fields
  *   the number of the output's columns
  */
private[keystate] final class Packing(
    schema: StructType,
    fields: Int,
    streams: ArrowStreams,
    context: TaskContext
) {
  private lazy val columns = {
    val columns = streams.columns(schema)
    context.addTaskCompletionListener[Unit](_ => columns.close())
    columns
  }
  private val bytes = new PackedBytes
  private val answers = new PackedAnswers(fields, streams, context)

  /** The columns of a message that is Arrow. */
  def root: VectorSchemaRoot = columns.root

  /** The message that is in these columns. */
  def stream: PackedBytes = {
    bytes.clear()
    bytes.addInt(PackedBytes.Arrow)
    streams.write(
      root,
      new OutputStream {
        override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)
        override def write(from: Array[Byte], start: Int, length: Int): Unit =
          bytes.add(from, start, length)
      }
    )
    bytes
  }

  /** Gives an answer to the conversation; returns its rows. */
  def receive(answer: ColumnarBatch, conversation: RowConversation)(
      receive: (String => ArrowColumnVector) => Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    val bytes = answer.column(0).asInstanceOf[ArrowColumnVector].getChild(0)
    answers.read(bytes.getBinary(0)) match {
      case Left(packed) => conversation.receive(packed)
      case Right(columns) => receive(columns)
    }
  }
}

private[keystate] object Packing {

  /** The schema of messages that are bytes. */
  val messageSchema: StructType =
    Conversation.message(Seq(StructField(Protocol.Message.Packed, BinaryType)))
}
