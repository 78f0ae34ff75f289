package org.apache.spark.sql.keystate.spec

import org.json4s.JsonDSL._
import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.sql.types.{DataType, StructType}

/** What a checkpoint records of aggregates, beside the types of their buffers.
  *
  * @param spark
  *   the line of Spark that wrote it last, such as 4.2
  * @param input
  *   the columns of the rows, by which the texts can be analysed again
  * @param texts
  *   the SQL of each aggregate, by the name of its column
  * @param windows
  *   the kind of its windows; None without windows
  * @param eventTime
  *   the name of the column that windows go by; None if they go by the clock
  */
private[keystate] final case class AggregateRecord(
    spark: String,
    input: StructType,
    texts: Seq[(String, String)],
    windows: Option[String],
    eventTime: Option[String]
) {
  def toJson: String = compact(
    render(
      ("spark" -> spark) ~
        ("input" -> parse(SchemaEvolution.bare(input).json)) ~
        ("texts" -> texts.map { case (name, text) => List(name, text) }) ~
        ("windows" -> windows) ~ ("eventTime" -> eventTime)
    )
  )

  /** Why aggregates can't go on from these. None if they can.
    *
    * @param before
    *   the type of these ones' state; `after` is that of the others'
    */
  def refusal(before: DataType, other: AggregateRecord, after: DataType): Option[String] = {
    val kinds = Option.when(windows != other.windows)(
      s"Their windows were ${named(windows)} and are now ${named(other.windows)}."
    )
    val others = other.texts.toMap
    val changes = for {
      (name, text) <- texts
      now <- others.get(name)
      problem <- change(text, now).orElse(
        change(AggregateRecord.buffers(before, name), AggregateRecord.buffers(after, name))
      )
    } yield s"Column '$name' was $problem: give the new one another name."
    kinds.orElse(changes.headOption)
  }

  private def change(before: String, now: String) =
    Option.when(before != now)(s"$before and is now $now")

  private def named(windows: Option[String]) = windows.getOrElse("none")
}

private[keystate] object AggregateRecord {
  private implicit val formats: Formats = DefaultFormats

  def fromJson(json: String): AggregateRecord = {
    val record = parse(json)
    AggregateRecord(
      (record \ "spark").extract[String],
      DataType.fromJson(compact(record \ "input")).asInstanceOf[StructType],
      (record \ "texts").extract[List[List[String]]].collect { case List(name, text) =>
        name -> text
      },
      (record \ "windows").extractOpt[String],
      (record \ "eventTime").extractOpt[String]
    )
  }

  private def buffers(state: DataType, column: String): String =
    SchemaEvolution.bare(state.asInstanceOf[StructType](column).dataType).sql
}
