package org.apache.spark.sql.keystate.spec

import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

/** What a checkpoint records of a pattern: what its partial matches depend on, by the names of its
  * parts.
  */
private[keystate] final case class PatternRecord(parts: Seq[(String, String)]) {
  def toJson: String = compact(render(JArray(parts.map { case (name, text) =>
    JArray(List(JString(name), JString(text)))
  }.toList)))

  /** The first part that differs: its name, and what it was and is. None if none does. */
  def difference(now: PatternRecord): Option[(String, String, String)] = {
    val (before, after) = (parts.toMap, now.parts.toMap)
    (parts ++ now.parts).map(_._1).distinct.collectFirst {
      case name if before.get(name) != after.get(name) =>
        (name, before.getOrElse(name, "none"), after.getOrElse(name, "none"))
    }
  }
}

private[keystate] object PatternRecord {
  private implicit val formats: Formats = DefaultFormats

  def fromJson(json: String): PatternRecord = PatternRecord(
    parse(json).extract[List[List[String]]].collect { case List(name, text) => name -> text }
  )
}
