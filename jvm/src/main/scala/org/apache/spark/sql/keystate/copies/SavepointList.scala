package org.apache.spark.sql.keystate.copies

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.JsonMethods.{compact, render}
import org.json4s.{JArray, JInt, JObject, JString}

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner}

/** The savepoints of a checkpoint that are there, by its records. */
private[keystate] final class SavepointList(root: Path, conf: Configuration) {
  import SavepointRecords.Record

  private val records = new SavepointRecords(root, conf)

  /** As JSON, oldest first.
    *
    * @param in
    *   the folder whose savepoints are listed; None for all
    */
  def run(in: Option[Path] = None): String = {
    new StoredReferences(root, conf).sweep()
    val made = records.all
      .filter(_._2.state == SavepointRecords.Made)
      .filter { case (_, record) =>
        in.forall(CheckpointFiles.isSamePlace(_, new Path(record.savepoint).getParent))
      }
      .toSeq
    val found = made.sortBy(_._2.time).flatMap { case (id, record) => describe(id, record) }
    compact(render(JArray(found.toList)))
  }

  /** Lets go of what a savepoint has of this checkpoint, which was deleted by other means than
    * [[CheckpointDeletion]].
    */
  def forget(savepoint: Path): Unit = {
    if (savepoint.getFileSystem(conf).exists(savepoint))
      throw KeystateErrors.savepointExists(s"$savepoint")
    val ids = records.all.filter { case (_, record) =>
      CheckpointFiles.isSamePlace(new Path(record.savepoint), savepoint)
    }.keys
    if (ids.isEmpty) throw KeystateErrors.noCheckpoint(s"$savepoint")
    ids.foreach(new StoredReferences(root, conf).release)
  }

  /** None if it was deleted, and has nothing of this checkpoint's. */
  private def describe(id: String, record: Record): Option[JObject] = {
    val path = new Path(record.savepoint)
    val fs = path.getFileSystem(conf)
    val isThere = fs.exists(path)
    val refers = record.kind == SavepointRecords.References
    if (!isThere && !refers) {
      records.delete(id)
      None
    } else {
      val bytes =
        if (!isThere) 0L
        else
          new StoredReferences(path, conf).below(path).map(_.getLen).sum -
            (if (record.kind == SavepointRecords.Links) record.shared_bytes else 0)
      val state =
        if (!isThere) "missing"
        else if (fs.exists(CheckpointOwner.unfinished(path))) "unfinished"
        else "ok"
      Some(
        JObject(
          "savepoint" -> JString(record.savepoint),
          "batch" -> JInt(record.batch),
          "time" -> JInt(record.time),
          "kind" -> JString(record.kind),
          "bytes" -> JInt(Math.max(0, bytes)),
          "shared_bytes" -> JInt(record.shared_bytes),
          "state" -> JString(state)
        )
      )
    }
  }
}
