package org.apache.spark.sql.keystate.python

import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.JObject

import org.apache.spark.sql.keystate.python.protocol.Protocol
import org.apache.spark.sql.keystate.python.server.StateServer.Answerer

/** Gives each question to the answerer for its kind.
  *
  * @param answerers
  *   by the question's `op`, see [[Protocol.Op]]
  */
private[keystate] final class Questions(answerers: Map[String, Answerer]) extends Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) = {
    val op = (question \ Protocol.Question.Op).extract[String]
    answerers.getOrElse(op, throw new IllegalArgumentException(s"no question is '$op'"))(
      question,
      data
    )
  }
}

private[keystate] object Questions {
  type Table = Map[String, Answerer]

  /** An empty reply. */
  val Nothing: (JObject, Array[Byte]) = (JObject(), Array.emptyByteArray)
}
