package org.apache.spark.sql.keystate.spec

import org.apache.spark.sql.streaming.{TimeMode => SparkTimeMode}

/** Which clock an operator goes by, as it is declared.
  *
  * @param name
  *   what users write
  */
private[keystate] sealed abstract class TimeMode(val name: String)

private[keystate] object TimeMode {

  /** Event time if the input has a watermark, else no clock. */
  case object Auto extends TimeMode("auto")
  case object EventTime extends TimeMode("event_time")
  case object ProcessingTime extends TimeMode("processing_time")
  case object NoTime extends TimeMode("none")

  /** The one that the checkpoint has, of an operator that is edited. */
  case object AsBefore extends TimeMode("")

  /** Those that an operator of a query can have. */
  val all: Seq[TimeMode] = Seq(Auto, EventTime, ProcessingTime, NoTime)

  def byName(name: String): Option[TimeMode] = (all :+ AsBefore).find(_.name == name)

  /** The one that Spark recorded of an operator. */
  def recorded(name: String): TimeMode =
    if (name == SparkTimeMode.EventTime().toString) EventTime
    else if (name == SparkTimeMode.ProcessingTime().toString) ProcessingTime
    else NoTime
}
