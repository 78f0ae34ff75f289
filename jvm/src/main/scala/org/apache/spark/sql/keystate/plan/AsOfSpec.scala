package org.apache.spark.sql.keystate.plan

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.keystate.expression.{AsOfDirection, AsOfMatching}
import org.apache.spark.sql.keystate.spec.SpecJson

/** The declaration of an as-of join.
  *
  * @param leftOn
  *   the column with the time of a left row; `rightOn` is that of a right one
  * @param suffix
  *   is added to the name of a right column that a left one has too
  * @param deleted
  *   the right column that says that a row deletes what its key had
  * @param late
  *   the side output for late left rows, if there is one
  */
private[keystate] final case class AsOfSpec(
    name: Option[String],
    maxParallelism: Option[Int],
    leftOn: String,
    rightOn: String,
    matching: AsOfMatching,
    suffix: String,
    inner: Boolean,
    waits: Boolean,
    deleted: Option[String],
    late: Option[SideOutput]
) extends DeclaresLate

private[keystate] object AsOfSpec {
  private implicit val formats: Formats = DefaultFormats

  /** The declaration as Python writes it, of a side output only if it is read. The tolerance is in
    * us.
    */
  def fromJson(json: String): AsOfSpec = {
    val declared = new SpecJson("an as-of join", JsonMethods.parse(json))
    def told[T: Manifest](name: String) = declared.field(name).extract[T]
    def optional[T: Manifest](name: String) = declared.field(name).extractOpt[T]
    val direction = told[String]("direction")
    AsOfSpec(
      optional[String]("name"),
      optional[Int]("maxParallelism"),
      told[String]("leftOn"),
      told[String]("rightOn"),
      AsOfMatching(
        AsOfDirection.all.find(_.name == direction).get,
        optional[Long]("tolerance"),
        told[Boolean]("exact")
      ),
      told[String]("suffix"),
      told[Boolean]("inner"),
      told[Boolean]("waits"),
      optional[String]("deleted"),
      optional[String]("lateOutput").map(SideOutput(_, isRead = true))
    )
  }
}
