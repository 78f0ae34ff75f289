package org.apache.spark.sql.keystate.copies

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.JString
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.errors.{ErrorCode, KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner, QueryLogs, SparkFiles}
import org.apache.spark.sql.keystate.forget.{CarriedRequests, ForgetFiles}

/** A copy of a checkpoint for a query that runs beside the one of the original, on the same input. It
  * has an id of its own, for Spark runs one query of an id at a time; and a file that tells forks from
  * checkpoints that somebody needs.
  */
private[keystate] final class Fork(root: Path, conf: Configuration) {
  import Fork._

  private val files = CheckpointFiles.create(root, conf)
  private val kept = new QueryLogs.OffsetEntries(new Path(root, "_keystate/fork/offsets"), conf)
  private val offsets = QueryLogs.offsets(conf, root)

  /** Makes it of a version, by reference if that can be shared. Returns its last micro-batch. */
  def make(original: QueryCheckpoint, version: Option[Long]): Long = {
    val identity = Some(Identity())
    try Savepoint.byReference(original, version, root, conf, identity)
    catch {
      case e: KeystateException if e.errorCode == ErrorCode.CannotShare =>
        new Savepoint(original, version, root, conf, fork = identity).write()
    }
  }

  /** Keeps what the original began micro-batches with, to begin the same ones later, and which keys
    * they forgot. The original is done with them. What its sources keep replaces what those of the
    * fork do: it has all that both have in common.
    *
    * @param operators
    *   the operators whose keys are in the fork as they were, and their numbers there
    */
  def keepBatches(
      original: QueryCheckpoint,
      first: Long,
      last: Long,
      operators: Long => Option[Long]
  ): Unit = {
    val log = QueryLogs.offsets(conf, original.root)
    (first to last).foreach { batch =>
      val entry = log.get(batch).getOrElse(throw KeystateErrors.noBatch(batch, original.location))
      kept.replace(batch, entry)
    }
    val draft =
      new CheckpointDraft(original, root, conf, KeystateErrors.targetExists, alwaysInPlace = true)
    draft.copy(draft.below("sources"))
    new CarriedRequests(new ForgetFiles(original.root, conf), first - 1, operators)
      .writeClaims(new ForgetFiles(root, conf), batch => first <= batch && batch <= last)
  }

  /** Makes a kept micro-batch the pending one, for the next start to run. */
  def begin(batch: Long): Unit = {
    val entry = kept.get(batch).getOrElse(throw KeystateErrors.noBatch(batch, s"$root"))
    offsets.begin(batch, entry)
  }

  /** Deletes it, also if it is cut off. Throws if it is another checkpoint. */
  def delete(): Unit = {
    val fs = root.getFileSystem(conf)
    if (fs.exists(root) && fs.listStatus(root).nonEmpty) {
      if (!isForksOwn) throw KeystateErrors.notAFork(s"$root")
      new CheckpointDeletion(root, conf).run()
    }
    // What a process wrote that died before it gave the folder its name.
    val cutOff = CheckpointDraft.nameOf(root)
    try
      fs.listStatus(root.getParent, (path: Path) => cutOff.matches(path.getName))
        .foreach(one => fs.delete(one.getPath, true))
    catch { case _: FileNotFoundException => }
  }

  /** Whether it was made here, and nobody has come to need it. */
  private def isForksOwn: Boolean = isCutOff ||
    CheckpointFiles.readIfThere(files, mark(root)).map(new String(_, UTF_8)).exists { original =>
      original.isEmpty || isBeside(new Path(original))
    }

  /** Whether the making of it, or its deletion, did not come to an end. */
  private def isCutOff: Boolean =
    files.exists(CheckpointOwner.unfinished(root)) && CheckpointOwner.moved(root, files).isEmpty

  /** Whether the checkpoint whose place it was to take goes on itself, or in a third place. If that
    * is deleted, or another one is there by now, it may be that this one took its place: the mark
    * stays if a driver died while it promoted it.
    */
  private def isBeside(original: Path): Boolean = {
    val there = CheckpointFiles.create(original, conf)
    val goesOn = CheckpointOwner.moved(original, there) match {
      case Some(to) => !CheckpointFiles.isSamePlace(new Path(to), root)
      case None => !there.exists(CheckpointOwner.unfinished(original))
    }
    goesOn && queryOf(original, there).exists(queryOf(root, files).contains)
  }
}

private[keystate] object Fork {

  /** @param query
    *   the id of its query
    * @param original
    *   where the checkpoint is whose place it is to take ([[Promotion]]); else empty
    */
  final case class Identity(query: String = UUID.randomUUID.toString, original: String = "")

  object Identity {

    /** Of a copy that is to take the place of a checkpoint. */
    def ofSuccessor(original: QueryCheckpoint): Identity = {
      val query = queryOf(original.root, original.files)
        .getOrElse(throw KeystateErrors.noCheckpoint(s"${original.root}"))
      Identity(query, s"${original.root}")
    }
  }

  /** The id of a checkpoint's query. None if there is no checkpoint. */
  private def queryOf(root: Path, files: CheckpointFileManager): Option[String] = {
    val metadata = new Path(root, "metadata")
    CheckpointFiles.readIfThere(files, metadata).map { json =>
      SparkFiles.reading(metadata) {
        val JString(query) = parse(new String(json, UTF_8)) \ "id": @unchecked
        query
      }
    }
  }

  /** The file that only forks have. */
  def mark(root: Path): Path = new Path(root, Mark)

  final val Mark = "_keystate/fork/made"
}
