package org.apache.spark.sql.keystate.python.messages

import java.io.OutputStream

import org.apache.arrow.vector.VectorSchemaRoot

import org.apache.spark.TaskContext
import org.apache.spark.sql.types.{BinaryType, StructType}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.spec.Protocol

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

  /** A packed answer, or the columns of an Arrow answer, which are valid until the next one. */
  def read(answer: ColumnarBatch): Either[PackedAnswer, String => ArrowColumnVector] = {
    val bytes = answer.column(0).asInstanceOf[ArrowColumnVector].getChild(0)
    answers.read(bytes.getBinary(0))
  }
}

private[keystate] object Packing {

  /** The schema of messages that are bytes. */
  val messageSchema: StructType = new StructType()
    .add(Protocol.Message.Message, new StructType().add(Protocol.Message.Packed, BinaryType))
}
