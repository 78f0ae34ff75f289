package org.apache.spark.sql.keystate.python

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.complex.StructVector

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch}

import org.apache.spark.sql.keystate.python.columns.KeySlots
import org.apache.spark.sql.keystate.python.protocol.Protocol

/** What a task says to a Python worker and hears from it, message after message. */
private[keystate] trait Conversation {

  /** Makes the sender that fills the vectors of `root` with the messages. */
  def sender(root: VectorSchemaRoot): MessageSender

  /** What is made of an answer, given by its columns. Called under the task's lease of the backend. */
  def receive(column: String => ArrowColumnVector): Iterator[InternalRow]
}

private[keystate] trait MessageSender {

  /** Fills in the next message; false when there is nothing left to send. */
  def fill(input: Iterator[InternalRow]): Boolean

  /** Empties the vectors for the next message. */
  def reset(): Unit
}

/** Which keys the slots in a worker's questions stand for. Ask under the task's lease of the backend. */
private[keystate] trait AskedKeys {
  def slotsOf(generation: Int): KeySlots

  /** Of how many slots of the generation before this one the changes are in the backend. */
  def readBefore(generation: Int): Int
}

private[keystate] object Conversation {

  /** The schema of messages with these columns: the stock worker unwraps the one struct column that
    * map-in-arrow input consists of.
    */
  def message(columns: Seq[StructField]): StructType =
    new StructType().add(Protocol.Message.Message, StructType(columns))

  /** The columns of an answer by their names. */
  def columns(answer: ColumnarBatch): Map[String, ArrowColumnVector] = {
    val struct = answer.column(0).asInstanceOf[ArrowColumnVector]
    val names = struct.getValueVector.asInstanceOf[StructVector].getChildFieldNames().asScala
    names.zipWithIndex.map { case (name, i) => name -> struct.getChild(i) }.toMap
  }
}
