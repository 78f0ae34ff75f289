package org.apache.spark.sql.keystate.python

import java.util.Base64

import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.{JInt, JObject, JString}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.columns.{PageRequest, StateColumns}
import org.apache.spark.sql.keystate.python.server.StateServer
import org.apache.spark.sql.keystate.python.protocol.Protocol

/** Answers a worker's questions about one task's states by key. */
private[keystate] final class StateQuestions(
    task: AskedKeys,
    channels: Seq[StateColumns],
    pages: ArrowStreams
) extends StateServer.Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, keys: Array[Byte]): (JObject, Array[Byte]) = {
    val channel = channels((question \ Protocol.Question.State).extract[Int])
    val generation = (question \ Protocol.Question.Generation).extract[Int]
    val slots = task.slotsOf(generation)
    val slot = (question \ Protocol.Question.Slot).extract[Int]
    val (group, key) = (slots.group(slot), slots.key(slot))
    (question \ Protocol.Question.Op).extract[String] match {
      case Protocol.Op.Get => (JObject(), pages.read(keys)(channel.find(group, key, _, pages)))
      case Protocol.Op.Scan =>
        val page = channel.page(group, key, request(question, channel, key, keys), pages)
        val next = page.next.map(key =>
          Protocol.Reply.Next -> JString(Base64.getEncoder.encodeToString(key))
        )
        val read = Protocol.Reply.Read -> JInt(task.readBefore(generation))
        (JObject(read :: next.toList), page.data)
    }
  }

  private def request(
      question: JObject,
      channel: StateColumns,
      key: Array[Byte],
      userKeys: Array[Byte]
  ): PageRequest = {
    val bounds = (question \ Protocol.Question.Bounds).extract[Seq[String]]
    val encoded =
      if (bounds.isEmpty) Nil else pages.read(userKeys)(channel.entryKeys(key, _))
    val bound = bounds.zip(encoded).toMap
    val request = PageRequest(
      start = bound.get(Protocol.Bound.Start),
      end = bound.get(Protocol.Bound.End),
      reverse = (question \ Protocol.Question.Reverse).extract[Boolean],
      limit = (question \ Protocol.Question.Limit).extract[Int]
    )
    val from = (question \ Protocol.Question.From).extract[String]
    if (from.isEmpty) request else request.after(Base64.getDecoder.decode(from))
  }
}
