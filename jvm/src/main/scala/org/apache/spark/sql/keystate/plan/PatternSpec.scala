package org.apache.spark.sql.keystate.plan

import org.json4s._
import org.json4s.jackson.JsonMethods

import keystate.pattern.{AfterMatch, Part, Pattern, Skips, Times}
import org.apache.spark.sql.keystate.spec.SpecJson

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
    val declared = new SpecJson("a pattern", JsonMethods.parse(json))
    import declared.field
    PatternSpec(
      field("name").extractOpt[String],
      field("maxParallelism").extractOpt[Int],
      Pattern(field("parts").children.map(part), field("within").extractOpt[Long]),
      after(field("after")),
      field("allRows").extract[Boolean],
      field("mostMatches").extractOpt[Int].getOrElse(MostMatches),
      field("drops").extract[Boolean],
      field("lateOutput").extractOpt[String].map(SideOutput(_, isRead = true)),
      field("timeoutOutput").extractOpt[String].map(SideOutput(_, isRead = true))
    )
  }

  private def part(json: JValue): Part = {
    val declared = new SpecJson("a part of a pattern", json)
    import declared.field
    def name = field("name").extract[String]
    field("kind").extract[String] match {
      case "absent" =>
        Part.Absent(
          name,
          field("condition").extract[Int],
          field("atOnce").extract[Boolean],
          field("within").extractOpt[Long]
        )
      case "group" =>
        Part.Group(
          field("parts").children.map(part),
          skips(field("skips")),
          times(field("times")),
          field("until").extractOpt[Int]
        )
      case "rows" =>
        Part.Rows(
          name,
          field("condition").extractOpt[Int],
          skips(field("skips")),
          times(field("times")),
          field("greedy").extract[Boolean],
          field("until").extractOpt[Int],
          field("within").extractOpt[Long]
        )
    }
  }

  private def times(json: JValue) = {
    val declared = new SpecJson("the times of a part", json)
    import declared.field
    Times(
      field("least").extract[Int],
      field("most").extractOpt[Int],
      field("optional").extract[Boolean],
      skips(field("skips"))
    )
  }

  private def skips(json: JValue): Skips = Skips.all.find(_.name == json.extract[String]).get

  private def after(json: JValue): AfterMatch = {
    val declared = new SpecJson("what is skipped after a match", json)
    import declared.field
    field("kind").extract[String] match {
      case "no_skip" => AfterMatch.NoSkip
      case "to_next" => AfterMatch.ToNext
      case "past_last" => AfterMatch.PastLast
      case to =>
        AfterMatch.To(
          field("part").extract[String],
          last = to == "to_last",
          field("needed").extract[Boolean]
        )
    }
  }
}
