package org.apache.spark.sql.keystate.python

import java.util.Base64

import org.json4s.JsonAST.{JInt, JObject}
import org.json4s.{DefaultFormats, Formats}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.messages.{KeyedColumns, PageRequest}
import org.apache.spark.sql.keystate.spec.Protocol

/** Answers a worker's questions about the keyed states of one task. */
private[keystate] final class StateQuestions(
    task: AskedKeys,
    states: KeyedColumns,
    pages: ArrowStreams
) {
  private implicit val formats: Formats = DefaultFormats

  def questions: Questions.Table = Map(
    Protocol.Op.Get -> { (question, keys) =>
      val (state, group, key) = asked(question)
      (JObject(), pages.read(keys)(states.maps(state).find(group, key, _, pages)))
    },
    Protocol.Op.Scan -> { (question, keys) =>
      val (state, group, key) = asked(question)
      val page =
        states.paged(state).page(group, key, request(question, state, key, keys), pages)
      Questions.reply(page, Protocol.Reply.Read -> JInt(task.readBefore(cacheEpochOf(question))))
    }
  )

  /** The subject of a question: the index of the state, and the key group and key of the key index.
    */
  private def asked(question: JObject): (Int, Int, Array[Byte]) = {
    val keyIndexes = task.keyIndexesOf(cacheEpochOf(question))
    val keyIndex = (question \ Protocol.Question.KeyIndex).extract[Int]
    val state = (question \ Protocol.Question.State).extract[Int]
    (state, keyIndexes.group(keyIndex), keyIndexes.key(keyIndex))
  }

  private def cacheEpochOf(question: JObject): Int =
    (question \ Protocol.Question.CacheEpoch).extract[Int]

  private def request(
      question: JObject,
      state: Int,
      key: Array[Byte],
      userKeys: Array[Byte]
  ): PageRequest = {
    val bounds = (question \ Protocol.Question.Bounds).extract[Seq[String]]
    val encoded =
      if (bounds.isEmpty) Nil else pages.read(userKeys)(states.maps(state).entryKeys(key, _))
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
