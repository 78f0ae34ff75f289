package org.apache.spark.sql.keystate.python

import java.util.Base64

import org.json4s.JsonAST.{JField, JObject, JString}
import org.json4s.{DefaultFormats, Formats}

import org.apache.spark.sql.keystate.python.StateServer.Answerer
import org.apache.spark.sql.keystate.python.messages.Page
import org.apache.spark.sql.keystate.spec.Protocol

/** Gives each question to the answerer for its kind.
  *
  * @param answerers
  *   by the question's `op`, see [[Protocol.Op]]
  */
private[keystate] final class Questions(answerers: Map[String, Answerer]) extends Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) = {
    val op = (question \ Protocol.Question.Op).extract[String]
    answerers
      .getOrElse(op, throw new IllegalArgumentException(s"no question is '$op'"))(question, data)
  }
}

private[keystate] object Questions {
  type Table = Map[String, Answerer]

  /** An empty reply. */
  val Nothing: (JObject, Array[Byte]) = (JObject(), Array.emptyByteArray)

  /** A page, where the next one begins, and what else the reply says. */
  def reply(page: Page, more: JField*): (JObject, Array[Byte]) = {
    val next = page.next.map { key =>
      Protocol.Reply.Next -> JString(Base64.getEncoder.encodeToString(key))
    }
    (JObject(more.toList ++ next), page.data)
  }
}
