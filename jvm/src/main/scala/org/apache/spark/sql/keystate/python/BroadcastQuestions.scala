package org.apache.spark.sql.keystate.python

import java.util.Base64

import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.{JObject, JString}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.columns.BroadcastColumns
import org.apache.spark.sql.keystate.python.server.StateServer
import org.apache.spark.sql.keystate.python.protocol.Protocol

/** Answers a worker's questions in a task with broadcast states: for these, where it has others, and
  * while it processes broadcast elements, for keys. Other questions go to `others`.
  */
private[keystate] final class BroadcastQuestions(
    columns: Seq[BroadcastColumns],
    keys: Option[KeyPages],
    pages: ArrowStreams,
    others: StateServer.Answerer
) extends StateServer.Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) =
    (question \ Protocol.Question.Op).extract[String] match {
      case Protocol.Op.Broadcast =>
        val from = (question \ Protocol.Question.From).extract[String]
        val start = Option.when(from.nonEmpty)(Base64.getDecoder.decode(from))
        val channel = columns((question \ Protocol.Question.State).extract[Int])
        val page = channel.page(start, (question \ Protocol.Question.Limit).extract[Int], pages)
        val next = page.next.map(key =>
          Protocol.Reply.Next -> JString(Base64.getEncoder.encodeToString(key))
        )
        (JObject(next.toList), page.data)
      case Protocol.Op.Keys => (JObject(), keys.get.next(question, data))
      case _ => others(question, data)
    }
}
