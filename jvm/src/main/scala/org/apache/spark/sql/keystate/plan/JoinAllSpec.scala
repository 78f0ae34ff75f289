package org.apache.spark.sql.keystate.plan

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.keystate.expression.{Between, JoinRule, Within}
import org.apache.spark.sql.keystate.spec.SpecJson

/** The declaration of a join of many streams.
  *
  * @param on
  *   the column with the time of each stream's rows; None: that of the watermark
  * @param suffixes
  *   for each stream what is added to the names of columns that an earlier one has too
  * @param earliest
  *   the name of a column for the earliest time of a result's rows, if there is one
  * @param late
  *   the side output for late rows, if there is one
  */
private[keystate] final case class JoinAllSpec(
    name: Option[String],
    maxParallelism: Option[Int],
    on: Seq[Option[String]],
    rule: JoinRule,
    suffixes: Seq[String],
    earliest: Option[String],
    late: Option[SideOutput]
) extends DeclaresLate

private[keystate] object JoinAllSpec {
  private implicit val formats: Formats = DefaultFormats

  /** The declaration as Python writes it, of a side output only if it is read. */
  def fromJson(json: String): JoinAllSpec = {
    val declared = new SpecJson("a join of many streams", JsonMethods.parse(json))
    import declared.field
    JoinAllSpec(
      field("name").extractOpt[String],
      field("maxParallelism").extractOpt[Int],
      field("on").children.map(_.extractOpt[String]),
      rule(field("rule"), field("outer").extract[Boolean]),
      field("suffixes").extract[Seq[String]],
      field("earliest").extractOpt[String],
      field("lateOutput").extractOpt[String].map(SideOutput(_, isRead = true))
    )
  }

  /** The times are in us. */
  private def rule(json: JValue, outer: Boolean): JoinRule = json match {
    case JInt(within) => Within(within.toLong, outer)
    case bounds =>
      val Seq(lower, upper) = bounds.extract[Seq[Long]]: @unchecked
      Between(lower, upper, outer)
  }
}
