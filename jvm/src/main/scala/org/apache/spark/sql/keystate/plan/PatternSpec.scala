package org.apache.spark.sql.keystate.plan

import org.json4s._
import org.json4s.jackson.JsonMethods

import keystate.pattern.{AfterMatch, Part, Pattern, Skips, Times}

/** The declaration of a pattern of parts. Times are in us.
  *
  * @param allRows
  *   whether there is a row for each row of a match, and not one for each match
  * @param mostMatches
  *   how many partial matches a key may have, and `drops` whether those that began first are dropped
  *   if there are more
  * @param late
  *   the side output for late rows, if there is one, and `timeouts` that for partial matches
  */
private[keystate] final case class PatternSpec(
    name: Option[String],
    maxParallelism: Option[Int],
    pattern: Pattern,
    after: AfterMatch,
    allRows: Boolean,
    mostMatches: Int,
    drops: Boolean,
    late: Option[SideOutput],
    timeouts: Option[SideOutput]
)

private[keystate] object PatternSpec {
  private implicit val formats: Formats = DefaultFormats

  /** How many partial matches a key may have, unless it is said. */
  final val MostMatches = 10000

  /** The declaration as Python writes it, of side outputs only if they are read. */
  def fromJson(json: String): PatternSpec = {
    val declared = JsonMethods.parse(json)
    def optional[T: Manifest](name: String) = (declared \ name).extractOpt[T]
    PatternSpec(
      optional[String]("name"),
      optional[Int]("maxParallelism"),
      Pattern((declared \ "parts").children.map(part), optional[Long]("within")),
      after(declared \ "after"),
      (declared \ "allRows").extract[Boolean],
      optional[Int]("mostMatches").getOrElse(MostMatches),
      (declared \ "drops").extract[Boolean],
      optional[String]("lateOutput").map(SideOutput(_, isRead = true)),
      optional[String]("timeoutOutput").map(SideOutput(_, isRead = true))
    )
  }

  private def part(json: JValue): Part = {
    def optional[T: Manifest](name: String) = (json \ name).extractOpt[T]
    def name = (json \ "name").extract[String]
    (json \ "kind").extract[String] match {
      case "absent" =>
        Part.Absent(
          name,
          (json \ "condition").extract[Int],
          (json \ "atOnce").extract[Boolean],
          optional[Long]("within")
        )
      case "group" =>
        Part.Group(
          (json \ "parts").children.map(part),
          skips(json \ "skips"),
          times(json \ "times"),
          optional[Int]("until")
        )
      case "rows" =>
        Part.Rows(
          name,
          optional[Int]("condition"),
          skips(json \ "skips"),
          times(json \ "times"),
          (json \ "greedy").extract[Boolean],
          optional[Int]("until"),
          optional[Long]("within")
        )
    }
  }

  private def times(json: JValue) = Times(
    (json \ "least").extract[Int],
    (json \ "most").extractOpt[Int],
    (json \ "optional").extract[Boolean],
    skips(json \ "skips")
  )

  private def skips(json: JValue): Skips = Skips.all.find(_.name == json.extract[String]).get

  private def after(json: JValue): AfterMatch = (json \ "kind").extract[String] match {
    case "no_skip" => AfterMatch.NoSkip
    case "to_next" => AfterMatch.ToNext
    case "past_last" => AfterMatch.PastLast
    case to =>
      AfterMatch.To(
        (json \ "part").extract[String],
        last = to == "to_last",
        (json \ "needed").extract[Boolean]
      )
  }
}
