package org.apache.spark.sql.keystate.python

import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.{JObject, JString}
import org.json4s.JsonDSL._

import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.checkpoint.OperatorState
import org.apache.spark.sql.keystate.python.server.StateServer
import org.apache.spark.sql.keystate.state.{RawKeyedState, SubtaskState}
import org.apache.spark.sql.keystate.python.protocol.Protocol

/** Answers a new function instance's question for its operator state. */
private[keystate] final class OperatorStateQuestions(
    own: SubtaskState,
    readAll: () => Seq[OperatorState],
    others: StateServer.Answerer
) extends StateServer.Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) =
    (question \ Protocol.Question.Op).extract[String] match {
      case Protocol.Op.OperatorState =>
        val unions = (question \ Protocol.Question.Unions).extract[Boolean]
        val restored = own.restored(unions, readAll)
        val json = restored.fold("")(state => new String(OperatorState.toJson(state), UTF_8))
        (JObject(Protocol.Reply.State -> JString(json)), Array.emptyByteArray)
      case _ => others(question, data)
    }
}

/** Answers a new function instance's questions for its raw streams, one after the other. */
private[keystate] final class RawKeyedStateQuestions(
    state: RawKeyedState,
    others: StateServer.Answerer
) extends StateServer.Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) =
    (question \ Protocol.Question.Op).extract[String] match {
      case Protocol.Op.RawKeyed =>
        state.next((question \ Protocol.Question.From).extract[Int]) match {
          case Some((group, stream)) => (Protocol.Reply.Group -> group: JObject, stream)
          case None => (JObject(), Array.emptyByteArray)
        }
      case _ => others(question, data)
    }
}

/** What a worker says of the operator state of its subtask. */
private[keystate] object OperatorStateColumns {

  /** Takes it from an answer; whether this is the last one, which alone has it. */
  def receive(own: SubtaskState, column: String => ArrowColumnVector): Boolean = {
    val state = column(Protocol.Answer.OperatorState)
    val last = !state.isNullAt(0)
    if (last)
      own.put(
        state.getBinary(0),
        new String(column(Protocol.Answer.OperatorTag).getBinary(0), UTF_8)
      )
    last
  }

  /** Takes the raw keyed streams of the same answer. */
  def receiveRaw(state: RawKeyedState, column: String => ArrowColumnVector): Unit = {
    val written = column(Protocol.Answer.RawGroups).getArray(0)
    val streams = column(Protocol.Answer.RawStreams).getArray(0)
    state.replace(
      (0 until written.numElements()).map(i => written.getInt(i) -> streams.getBinary(i)).toMap
    )
  }
}
