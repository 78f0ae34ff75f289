package org.apache.spark.sql.keystate.plan

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.keystate.expression.{FixedBounds, SessionBounds, Windows}
import org.apache.spark.sql.keystate.spec.SpecJson

/** The declaration of aggregates of a keyed stream.
  *
  * @param eventTime
  *   the column with a row's event time, for windows of a batch Dataset
  * @param late
  *   the side output for rows that are too late, if there is one
  */
private[keystate] final case class AggregateSpec(
    name: Option[String],
    maxParallelism: Option[Int],
    windows: Option[Windows],
    eventTime: Option[String] = None,
    late: Option[SideOutput] = None
) extends DeclaresLate

private[keystate] object AggregateSpec {
  private implicit val formats: Formats = DefaultFormats

  /** The declaration as Python writes it, of a side output only if it is read. */
  def fromJson(json: String): AggregateSpec = {
    val declared = new SpecJson("aggregates", JsonMethods.parse(json))
    def optional[T: Manifest](name: String) = declared.field(name).extractOpt[T]
    AggregateSpec(
      optional[String]("name"),
      optional[Int]("maxParallelism"),
      declared.field("windows").toOption.filter(_ != JNull).map(windows),
      optional[String]("eventTime"),
      optional[String]("lateOutput").map(SideOutput(_, isRead = true))
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
