package org.apache.spark.sql.keystate.python

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import org.apache.arrow.vector.complex.{ListVector, StructVector}
import org.apache.arrow.vector.{VarBinaryVector, VectorSchemaRoot}
import org.json4s.JsonAST.{JInt, JObject}
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{BinaryType, StructField, StructType}
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.{Elements, ReceivedRows}
import org.apache.spark.sql.keystate.python.messages.{
  BroadcastColumns, MessageSender, RowColumn, StateColumns
}
import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.BroadcastStates

/** The first pass of a task whose micro-batch has broadcast elements. It sends them to the worker,
  * and takes back the function's results and its changes of the broadcast states. The other rows
  * come in a second pass, so that they see the final broadcast states. This pass has keys only if
  * the function asks for them, see [[KeyPages]].
  */
private[keystate] final class BroadcastConversation(
    states: BroadcastStates,
    columns: Seq[BroadcastColumns],
    context: JObject,
    project: InternalRow => InternalRow,
    messageRows: Int
) extends Conversation {
  private val newTag = UUID.randomUUID.toString
  private var control = context.merge(
    (Protocol.Control.CacheEpoch -> JInt(
      0
    )) ~ (Protocol.Control.BroadcastTag -> states.tag) ~ (Protocol.Control.NewTag -> newTag): JObject
  )

  /** The numbers of entries that the worker has put and removed so far. */
  var updated = 0L
  var removed = 0L

  /** Adds fields to the control column of every message. */
  def announce(more: JObject): Unit = control = control.merge(more)

  override def sender(root: VectorSchemaRoot): MessageSender = new MessageSender {
    private val struct = root.getVector(0).asInstanceOf[StructVector]
    private val controls = struct.getChild(Protocol.Message.Control).asInstanceOf[VarBinaryVector]
    private val rows = new RowColumn(
      struct.getChild(Protocol.Message.Broadcast).asInstanceOf[ListVector]
    )

    override def fill(input: Iterator[InternalRow]): Boolean = {
      val more = input.hasNext
      if (more) {
        while (input.hasNext && rows.count < messageRows) rows.add(input.next())
        controls.setSafe(0, JsonMethods.compact(control).getBytes(UTF_8))
        controls.setValueCount(1)
        rows.finish()
        struct.setIndexDefined(0)
        root.setRowCount(1)
      }
      more
    }

    override def reset(): Unit = {
      rows.reset()
      controls.reset()
      struct.reset()
    }
  }

  /** Takes an answer. The last answer has the changes of the broadcast states. */
  override def receive(column: String => ArrowColumnVector): Iterator[InternalRow] = {
    if (column(Protocol.Answer.Last).getBoolean(0)) {
      columns.foreach { state =>
        val (put, gone) = state(column)
        updated += put
        removed += gone
      }
      states.tag = newTag
    }
    val rows = new ReceivedRows(Elements(column(Protocol.Answer.Out)), isStruct = true)
    Iterator.range(0, rows.size).map(i => project(rows(i)))
  }
}

private[keystate] object BroadcastConversation {

  /** The schema of a message to the worker. */
  def messageSchema(rows: StructType): StructType = Conversation.message(
    Seq(
      StructField(Protocol.Message.Control, BinaryType),
      StateColumns.list(Protocol.Message.Broadcast, rows)
    )
  )
}
