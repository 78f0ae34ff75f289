package org.apache.spark.sql.keystate.python

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.complex.StructVector

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch}

import org.apache.spark.sql.keystate.python.messages.{KeyIndexes, MessageSender}
import org.apache.spark.sql.keystate.spec.Protocol

/** The messages of a task to a Python worker, and the worker's answers. */
private[keystate] trait Conversation {

  /** Makes the sender that writes the messages into the vectors of `root`. */
  def sender(root: VectorSchemaRoot): MessageSender

  /** Processes an answer, given by its columns. Returns its rows. Called under the lease. */
  def receive(column: String => ArrowColumnVector): Iterator[InternalRow]
}

/** Maps the key indexes in a worker's questions to keys. Call it under the task's lease. */
private[keystate] trait AskedKeys {
  def keyIndexesOf(cacheEpoch: Int): KeyIndexes

  /** For how many key indexes of the previous cache epoch the changes are in the backend. */
  def readBefore(cacheEpoch: Int): Int
}

private[keystate] object Conversation {

  /** The schema of messages with these columns, which are fields of one struct column. Relies on
    * map-in-arrow: Spark's stock worker unwraps the one struct column of its input.
    */
  def message(columns: Seq[StructField]): StructType =
    new StructType().add(Protocol.Message.Message, StructType(columns))

  /** The columns of an answer, by name. */
  def columns(answer: ColumnarBatch): Map[String, ArrowColumnVector] = {
    val struct = answer.column(0).asInstanceOf[ArrowColumnVector]
    val names = struct.getValueVector.asInstanceOf[StructVector].getChildFieldNames().asScala
    names.zipWithIndex.map { case (name, i) => name -> struct.getChild(i) }.toMap
  }
}
