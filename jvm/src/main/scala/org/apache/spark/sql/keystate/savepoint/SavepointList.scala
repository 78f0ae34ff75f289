package org.apache.spark.sql.keystate.savepoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.JsonMethods.{compact, render}
import org.json4s.{JArray, JInt, JObject, JString}

import keystate.errors.KeystateErrors
import keystate.version.PinnedVersions
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner, QueryLogs}

/** The savepoints of a checkpoint that are there, by its records. */
private[keystate] final class SavepointList(root: Path, conf: Configuration) {
  import SavepointRecords.Record

  private val records = new SavepointRecords(root, conf)

  /** The savepoints as JSON, ordered by micro-batch, and then by time: clocks may be set back.
    *
    * @param in
    *   the folder whose savepoints are listed; None for all
    */
  def run(in: Option[Path] = None): String = {
    new StoredReferences(root, conf).sweep()
    val found = records.all.toSeq
      .filter(_._2.state != SavepointRecords.Abandoned)
      .filter { case (_, record) =>
        in.forall(CheckpointFiles.isSamePlace(_, new Path(record.savepoint).getParent))
      }
    val made = found.collect {
      case (_, record) if record.state == SavepointRecords.Made => record.savepoint
    }.toSet
    val listed = found
      // A list has each once: in an object store it is written where it is to be.
      .filter { case (_, record) =>
        record.state == SavepointRecords.Made || !made(record.savepoint)
      }
      .sortBy { case (_, record) => (record.batch, record.time) }
    compact(render(JArray(listed.flatMap { case (id, record) => describe(id, record) }.toList)))
  }

  /** Releases a savepoint's references to this checkpoint, after the savepoint was deleted by other
    * means than [[CheckpointDeletion]].
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

  /** None if it was deleted, and refers to nothing of this checkpoint. */
  private def describe(id: String, record: Record): Option[JObject] = {
    val path = new Path(record.savepoint)
    val fs = path.getFileSystem(conf)
    val isThere = fs.exists(path)
    val isMade = record.state == SavepointRecords.Made
    val refers = isMade && record.kind == SavepointRecords.References
    if (!isThere && !refers) {
      // A savepoint that is being made has nothing there yet.
      if (isMade || System.currentTimeMillis - record.time > PinnedVersions.LeaseMillis)
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
        else if (!isMade || fs.exists(CheckpointOwner.unfinished(path))) "unfinished"
        else if (isUsed(path, record.batch)) "used"
        else "ok"
      Some(
        JObject(
          "savepoint" -> JString(record.savepoint),
          "name" -> JString(CheckpointDraft.targetName(path)),
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

  /** Whether a query, or an offline change, has continued from it, so that it may have more by now.
    */
  private def isUsed(savepoint: Path, batch: Long): Boolean =
    CheckpointOwner.wasTaken(savepoint, conf) ||
      QueryLogs.commits(conf, savepoint).batches.exists(_ > batch)
}
