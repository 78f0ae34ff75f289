package org.apache.spark.sql.keystate.python

import java.util.Base64

import org.json4s.{DefaultFormats, Formats}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.messages.BroadcastColumns
import org.apache.spark.sql.keystate.spec.Protocol

/** Answers a worker's questions for broadcast states, which it asks if it holds outdated ones. */
private[keystate] object BroadcastQuestions {
  private implicit val formats: Formats = DefaultFormats

  def questions(columns: Seq[BroadcastColumns], pages: ArrowStreams): Questions.Table = Map(
    Protocol.Op.Broadcast -> { (question, _) =>
      val from = (question \ Protocol.Question.From).extract[String]
      val start = Option.when(from.nonEmpty)(Base64.getDecoder.decode(from))
      val state = columns((question \ Protocol.Question.State).extract[Int])
      Questions.reply(state.page(start, (question \ Protocol.Question.Limit).extract[Int], pages))
    }
  )
}
