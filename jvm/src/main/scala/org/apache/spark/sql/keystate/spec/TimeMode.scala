package org.apache.spark.sql.keystate.spec

import org.apache.spark.sql.streaming.{TimeMode => SparkTimeMode}

/** The declared clock of an operator.
  *
  * @param name
  *   the user's name for it
  */
private[keystate] sealed abstract class TimeMode(val name: String)

private[keystate] object TimeMode {

  /** Event time if the input has a watermark, else no clock. */
  case object Auto extends TimeMode("auto")
  case object EventTime extends TimeMode("event_time")
  case object ProcessingTime extends TimeMode("processing_time")
  case object NoTime extends TimeMode("none")

  /** The checkpoint's time mode, for an operator that is edited. */
  case object AsBefore extends TimeMode("")

  /** The time modes that an operator of a query can have. */
  val all: Seq[TimeMode] = Seq(Auto, EventTime, ProcessingTime, NoTime)

  def byName(name: String): Option[TimeMode] = (all :+ AsBefore).find(_.name == name)

  /** The time mode that Spark recorded for an operator. */
  def recorded(name: String): TimeMode =
    if (name == SparkTimeMode.EventTime().toString) EventTime
    else if (name == SparkTimeMode.ProcessingTime().toString) ProcessingTime
    else NoTime
}
