package org.apache.spark.sql.keystate.kafka

import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse, render}
import org.json4s.{DefaultFormats, Formats}

/** What is to be published of a micro-batch. It is noted in the batch's entry of the commit log, so
  * it never changes: whoever publishes it publishes the same, in the same groups.
  *
  * @param attempt
  *   the id of the attempt that counts
  * @param groups
  *   each group of files is one transaction
  */
private[kafka] final case class StagedBatch(
    batch: Long,
    attempt: String,
    groups: Seq[Seq[StagedFile]]
) {
  def files: Seq[StagedFile] = groups.flatten
  def rows: Long = files.map(_.rows).sum

  def toJson: String = compact(
    render(
      StagedBatch.Name -> (("batch" -> batch) ~ ("attempt" -> attempt) ~
        ("groups" -> groups.map(_.map { file =>
          ("name" -> file.name) ~ ("rows" -> file.rows) ~ ("bytes" -> file.bytes) ~
            ("checksum" -> file.checksum)
        })))
    )
  )
}

private[kafka] object StagedBatch {
  private final val Name = "keystate-kafka"
  private implicit val formats: Formats = DefaultFormats

  def fromJson(json: String): Option[StagedBatch] = (parse(json) \ Name).extractOpt[StagedBatch]

  /** Deals files out to groups: they stay in their order within a group.
    *
    * @param most
    *   how many groups there are at most
    */
  def of(batch: Long, attempt: String, files: Seq[StagedFile], most: Int): StagedBatch = {
    val groups = files.zipWithIndex.groupMap(_._2 % most)(_._1).toSeq.sortBy(_._1).map(_._2)
    StagedBatch(batch, attempt, groups)
  }
}
