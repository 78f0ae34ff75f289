package org.apache.spark.sql.keystate.python

import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.JsonAST.JObject
import org.json4s.JsonDSL._
import org.json4s.{DefaultFormats, Formats}

import keystate.checkpoint.OperatorState
import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.{OperatorStateEntries, RawKeyedState}

/** Answers a new function instance's questions for its operator state, and for its raw keyed
  * streams, which it gets one after the other.
  */
private[keystate] object OperatorStateQuestions {
  private implicit val formats: Formats = DefaultFormats

  def questions(own: OperatorStateEntries, readAll: () => Seq[OperatorState]): Questions.Table =
    Map(Protocol.Op.OperatorState -> { (question, _) =>
      val unions = (question \ Protocol.Question.Unions).extract[Set[String]]
      val restored = own.restored(unions, readAll)
      val json = restored.fold("")(state => new String(OperatorState.toJson(state.own), UTF_8))
      val reply = (Protocol.Reply.State -> json) ~
        (Protocol.Reply.Unions -> restored.fold(Map.empty[String, Seq[String]])(_.unions))
      (reply, Array.emptyByteArray)
    })

  def raw(state: RawKeyedState): Questions.Table = Map(Protocol.Op.RawKeyed -> { (question, _) =>
    state.next((question \ Protocol.Question.From).extract[Int]) match {
      case Some((group, stream)) => (Protocol.Reply.Group -> group: JObject, stream)
      case None => Questions.Nothing
    }
  })
}
