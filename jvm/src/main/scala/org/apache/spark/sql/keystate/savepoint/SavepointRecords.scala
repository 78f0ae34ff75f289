package org.apache.spark.sql.keystate.savepoint

import java.io.IOException
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.json4s.{DefaultFormats, Extraction, Formats, JObject}

import org.apache.spark.sql.keystate.files.CheckpointFiles

/** The savepoints of a checkpoint, in its folder `_keystate/savepoints`: a file for each, named by
  * its id. It is written once, when the savepoint's files exist. While they are written, another
  * file says where: so a list includes interrupted savepoints.
  *
  * For a savepoint by reference the file decides whether its references count. The maker of the
  * savepoint writes that it is made, and only then lets others see it. Whoever finds old references
  * without a record writes that they are abandoned, and only then deletes them. The storage lets
  * only one of the two write.
  */
private[keystate] final class SavepointRecords(checkpoint: Path, conf: Configuration) {
  import SavepointRecords._

  private implicit val formats: Formats = DefaultFormats
  private val folder = new Path(checkpoint, "_keystate/savepoints")
  private val files = CheckpointFiles.create(folder, conf)

  /** Lists a savepoint while it is made. If nothing can be written there is no list. */
  def telling[T](place: Path, kind: String)(make: => T): T = {
    val id = UUID.randomUUID.toString
    val begun = Record(Begun, s"$place", kind, -1, System.currentTimeMillis, 0)
    def quietly(body: => Unit): Unit =
      try body
      catch { case _: IOException => }
    quietly(decide(id, begun): Unit)
    try make
    finally quietly(delete(id))
  }

  /** Writes that a savepoint is made. False if it was abandoned. */
  def make(id: String, record: Record): Boolean = decide(id, record).state == Made

  /** Writes that a savepoint is abandoned. False if it is made. */
  def abandon(id: String): Boolean =
    decide(id, Record(Abandoned, "", "", 0, 0, 0)).state == Abandoned

  /** Writes a savepoint's record unless there is one, and returns the record that counts. */
  private def decide(id: String, record: Record): Record = {
    files.mkdirs(folder)
    try {
      val fields = Extraction.decompose(record).asInstanceOf[JObject]
      CheckpointFiles.writeJson(files, new Path(folder, id), fields, overwriteIfPossible = false)
      record
    } catch { case _: FileAlreadyExistsException => read(id).getOrElse(decide(id, record)) }
  }

  def read(id: String): Option[Record] =
    CheckpointFiles.readJson(files, new Path(folder, id))(_.extract[Record])

  def all: Map[String, Record] =
    CheckpointFiles
      .names(files, folder)
      .filterNot(_.startsWith("."))
      .flatMap(id => read(id).map(id -> _))
      .toMap

  def delete(id: String): Unit = files.delete(new Path(folder, id))
}

private[keystate] object SavepointRecords {
  final val Begun = "begun"
  final val Made = "made"
  final val Abandoned = "abandoned"

  final val Copy = "copy"
  final val Links = "links"
  final val References = "references"

  /** @param savepoint
    *   where it is, or is written
    * @param kind
    *   how it has the state: `Copy`, `Links` or `References`
    * @param time
    *   when it was made, in ms since the epoch
    * @param shared_bytes
    *   how many bytes of run files it has in common with the checkpoint
    */
  final case class Record(
      state: String,
      savepoint: String,
      kind: String,
      batch: Long,
      time: Long,
      shared_bytes: Long
  )
}
