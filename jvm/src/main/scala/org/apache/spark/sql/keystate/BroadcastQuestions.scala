package org.apache.spark.sql.keystate

import java.util.Base64

import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.{JObject, JString}

/** Answers a worker's questions in a task with broadcast states: for these, where it has others, and
  * while it processes broadcast elements, for keys. Other questions go to `others`.
  */
private[keystate] final class BroadcastQuestions(
    states: BroadcastStates,
    keys: Option[KeyPages],
    pages: PageFormat,
    others: StateServer.Answerer
) extends StateServer.Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) =
    (question \ "op").extract[String] match {
      case "broadcast" =>
        val from = (question \ "from").extract[String]
        val start = Option.when(from.nonEmpty)(Base64.getDecoder.decode(from))
        val channel = states.channels((question \ "state").extract[Int])
        val page = channel.page(start, (question \ "limit").extract[Int], pages)
        val next = page.next.map(key => "next" -> JString(Base64.getEncoder.encodeToString(key)))
        (JObject(next.toList), page.data)
      case "keys" => (JObject(), keys.get.next(question, data))
      case _ => others(question, data)
    }
}
