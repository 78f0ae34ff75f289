package org.apache.spark.sql.keystate.spec

import org.json4s._

import org.apache.spark.sql.keystate.spec.Protocol.WindowFiringFields

/** Windows of column aggregates whose results are (nearly) the stored aggregates: the JVM fires
  * them when they end.
  *
  * @param state
  *   the name of the state that holds them
  * @param byEventTime
  *   whether their clock is the event time
  * @param dropped
  *   the name of the function's metric that counts late rows
  * @param results
  *   the results of a window besides its key and its bounds
  */
private[keystate] final case class JvmWindowFiringSpec(
    state: String,
    byEventTime: Boolean,
    dropped: String,
    results: Seq[JvmWindowFiringSpec.Result]
)

private[keystate] object JvmWindowFiringSpec {
  private implicit val formats: Formats = DefaultFormats

  /** How a result is computed from a field of the stored aggregate. */
  sealed abstract class Made(val name: String)

  object Made {

    /** The field itself. */
    case object Value extends Made("value")

    /** The field, or 0 if it is null. */
    case object Count extends Made("count")

    /** The mean, from the field's sum and count. */
    case object Mean extends Made("mean")

    def byName(name: String): Made = Seq(Value, Count, Mean)
      .find(_.name == name)
      .getOrElse(throw new IllegalArgumentException(s"unknown result of windows '$name'"))
  }

  final case class Result(field: String, made: Made)

  /** None if there are none. */
  private[spec] def fromJson(json: JValue): Option[JvmWindowFiringSpec] =
    Option.when(json != JNull) {
      val declared = new SpecJson("windows", json)
      import declared.field
      JvmWindowFiringSpec(
        field(WindowFiringFields.State).extract[String],
        field(WindowFiringFields.EventTime).extract[Boolean],
        field(WindowFiringFields.Dropped).extract[String],
        field(WindowFiringFields.Results).children.map { result =>
          val of = new SpecJson("a result of windows", result)
          Result(
            of.field(WindowFiringFields.Field).extract[String],
            Made.byName(of.field(WindowFiringFields.Made).extract[String])
          )
        }
      )
    }
}
