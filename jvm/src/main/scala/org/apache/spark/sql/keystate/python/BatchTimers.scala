package org.apache.spark.sql.keystate.python

import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.JObject

import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.server.StateServer
import org.apache.spark.sql.keystate.python.protocol.Protocol

/** Takes a batch's changes as soon as the worker has them, and gives it the timers that they set: so
  * all timers fire in one conversation, with the function as it was opened. Other questions go to
  * `others`.
  */
private[keystate] final class BatchTimers(
    task: RowConversation,
    messageSchema: StructType,
    pages: ArrowStreams,
    others: StateServer.Answerer
) extends StateServer.Answerer {
  private implicit val formats: Formats = DefaultFormats
  private val nothing = (JObject(), Array.emptyByteArray)

  override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) =
    (question \ Protocol.Question.Op).extract[String] match {
      case Protocol.Op.Changes =>
        pages.readVectors(data) { changes =>
          task.applyChanges(name => new ArrowColumnVector(changes.getVector(name)))
        }
        nothing
      case Protocol.Op.Timers =>
        task.timersOfBatch(messageSchema, pages).fold(nothing)((JObject(), _))
      case _ => others(question, data)
    }
}
