package org.apache.spark.sql.keystate.canary

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.errors.{ErrorCode, KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner, QueryLogs}
import org.apache.spark.sql.keystate.forget.{CarriedRequests, ForgetFiles}
import org.apache.spark.sql.keystate.savepoint.{
  CheckpointDeletion, CheckpointDraft, CopyIdentity, Savepoint
}

/** A copy of a checkpoint for a query that runs next to the original's query, on the same input. It
  * has its own id, because Spark runs one query of an id at a time; and a file that distinguishes
  * forks from checkpoints that somebody needs.
  */
private[keystate] final class Fork(root: Path, conf: Configuration) {
  private val files = CheckpointFiles.create(root, conf)
  private val kept = new QueryLogs.OffsetEntries(new Path(root, "_keystate/fork/offsets"), conf)
  private val offsets = QueryLogs.offsets(conf, root)

  /** Makes it of a version, by reference if that can be shared. Returns its last micro-batch. */
  def make(original: QueryCheckpoint, version: Option[Long]): Long = {
    val identity = Some(CopyIdentity())
    try Savepoint.byReference(original, version, root, conf, identity)
    catch {
      case e: KeystateException if e.errorCode == ErrorCode.CannotShare =>
        new Savepoint(original, version, root, conf, fork = identity).write()
    }
  }

  /** Keeps the inputs of the original's micro-batches, to run the same ones later, and the keys
    * that they forgot. The original no longer needs them. The files of its sources replace those of
    * the fork: they contain everything that both have in common.
    *
    * @param operators
    *   the operators whose keys are unchanged in the fork, and their numbers there
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

  /** Deletes it, also if it is cut off. Throws if it is another checkpoint.
    *
    * @param asSuccessor
    *   whether it may be a successor that has not the place of its original. Then this driver has to be
    *   the last owner of the original ([[Promotion]]), so no other one is about to give it that place
    */
  def delete(asSuccessor: Boolean = false): Unit = {
    val fs = root.getFileSystem(conf)
    if (isThere) {
      if (!(isOwn || asSuccessor && isBeside)) throw KeystateErrors.notAFork(s"$root")
      new CheckpointDeletion(root, conf).run()
    }
    // The files of a process that died before it renamed the folder.
    val cutOff = CheckpointDraft.nameOf(root)
    try
      fs.listStatus(root.getParent, (path: Path) => cutOff.matches(path.getName))
        .foreach(one => fs.delete(one.getPath, true))
    catch { case _: FileNotFoundException => }
  }

  /** Throws if there is something in its place that a promotion would not delete. */
  def checkFree(): Unit =
    if (isThere && !isOwn && !isBeside) throw KeystateErrors.notAFork(s"$root")

  private def isThere: Boolean = {
    val fs = root.getFileSystem(conf)
    fs.exists(root) && fs.listStatus(root).nonEmpty
  }

  /** Whether it was made here for a query next to the original, or never became complete. */
  private def isOwn: Boolean =
    files.exists(CheckpointOwner.unfinished(root)) || files.exists(
      new Path(root, CopyIdentity.ForkMark)
    )

  /** Whether it is a successor whose original goes on, itself or in a third place, and it has only
    * state of the original. If the original is deleted, or replaced by another one, this one may
    * have taken its place.
    */
  private def isBeside: Boolean = CheckpointOwner.successor(root, files).exists { successor =>
    val original = new Path(successor.original)
    val there = CheckpointFiles.create(original, conf)
    val hasItsPlace = CheckpointOwner
      .moved(original, there)
      .exists(to => CheckpointFiles.isSamePlace(new Path(to), root))
    !hasItsPlace && !there.exists(CheckpointOwner.unfinished(original)) &&
    QueryLogs.query(original, there).contains(successor.query) &&
    QueryLogs.commits(conf, root).batches.forall(_ <= successor.batch)
  }
}
