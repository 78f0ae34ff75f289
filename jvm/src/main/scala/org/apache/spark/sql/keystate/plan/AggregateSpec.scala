package org.apache.spark.sql.keystate.plan

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.keystate.expression.{FixedBounds, SessionBounds, Windows}

/** The declaration of aggregates of a keyed stream.
  *
  * @param eventTime
  *   the column with a row's event time, for windows of a batch Dataset
  * @param lateOutput
  *   the name of the side output for rows that are too late, if there is one
  * @param readsLate
  *   whether it is read; else these rows are dropped
  */
private[keystate] final case class AggregateSpec(
    name: Option[String],
    maxParallelism: Option[Int],
    windows: Option[Windows],
    eventTime: Option[String] = None,
    lateOutput: Option[String] = None,
    readsLate: Boolean = false
) {

  /** The side output that is read. */
  def late: Option[String] = lateOutput.filter(_ => readsLate)
}

private[keystate] object AggregateSpec {
  private implicit val formats: Formats = DefaultFormats

  /** The declaration as Python writes it, of a side output only if it is read. */
  def fromJson(json: String): AggregateSpec = {
    val declared = JsonMethods.parse(json)
    def optional[T: Manifest](name: String) = (declared \ name).extractOpt[T]
    AggregateSpec(
      optional[String]("name"),
      optional[Int]("maxParallelism"),
      (declared \ "windows").toOption.filter(_ != JNull).map(windows),
      optional[String]("eventTime"),
      optional[String]("lateOutput"),
      readsLate = true
    )
  }

  private def windows(json: JValue): Windows = {
    def millis(name: String) = (json \ name).extract[Long]
    val bounds =
      if ((json \ "gap") == JNothing) FixedBounds(millis("size"), millis("slide"), millis("offset"))
      else SessionBounds(millis("gap"))
    Windows(bounds, (json \ "byEventTime").extract[Boolean], millis("lateness"))
  }
}
