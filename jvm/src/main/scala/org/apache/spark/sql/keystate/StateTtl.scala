package org.apache.spark.sql.keystate

import org.json4s._

import keystate.backend.StateFamily
import keystate.ttl.{Expiry, TimeToLive}

/** The time to live of an operator's states. */
private[keystate] object StateTtl {
  private implicit val formats: Formats = DefaultFormats

  /** What Python says of one state's; None when it says nothing. */
  def fromJson(json: JValue): Option[TimeToLive] = json match {
    case JNothing | JNull => None
    case _ =>
      Some(
        TimeToLive(
          millis = (json \ "millis").extract[Long],
          eventTime = (json \ "event_time").extract[Boolean],
          updatedOnRead = (json \ "updated_on_read").extract[Boolean],
          returnExpired = (json \ "return_expired").extract[Boolean],
          sweepSize = (json \ "sweep_size").extract[Int],
          sweepOnRecords = (json \ "sweep_on_records").extract[Boolean],
          dropOnMerge = (json \ "drop_on_merge").extract[Boolean]
        )
      )
  }

  /** What has expired in a task, by state name.
    *
    * @param recorded
    *   finds a state as the last version has it
    */
  def expiries(
      spec: OperatorSpec,
      processingTime: Option[Long],
      watermark: Option[Long],
      recorded: String => Option[StateFamily]
  ): Map[String, Expiry] = {
    for {
      state <- spec.states
      ttl <- state.ttl
      time <- if (ttl.eventTime) watermark else processingTime
      properties = recorded(state.name).fold(Map.empty[String, String])(_.properties)
    } yield state.name -> Expiry(ttl, time, properties)
  }.toMap
}
