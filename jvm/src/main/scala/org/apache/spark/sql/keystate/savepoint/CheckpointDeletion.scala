package org.apache.spark.sql.keystate.savepoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.files.{
  CheckpointBases, CheckpointFiles, CheckpointOwner, OwnerFiles
}

/** Deletes a checkpoint, or a savepoint. Files that savepoints by reference need stay until the
  * last of these savepoints is deleted.
  *
  * It first marks the checkpoint as unreadable, then looks for references. The maker of a savepoint
  * writes its references first, and then checks whether the checkpoint may be read. So at least one
  * of the two sees the other. When nothing refers to the checkpoint, it releases its own references
  * to other checkpoints, last. A deletion can be interrupted anywhere, and repeated.
  */
private[keystate] final class CheckpointDeletion(root: Path, conf: Configuration) {
  private val fs = root.getFileSystem(conf)
  private val files = CheckpointFiles.create(root, conf)
  private val references = new StoredReferences(root, conf)
  private val own = new Path(root, "_keystate")
  private val unfinished = CheckpointOwner.unfinished(root)
  private val deleted = new Path(own, "deleted")

  /** Returns how many run files stay. */
  def run(): Int = {
    if (
      !Seq("commits", "offsets", "state", "_keystate")
        .exists(name => files.exists(new Path(root, name))) &&
      !(CheckpointDraft.isDraft(root) && fs.exists(root)) // however little of it there is
    )
      throw KeystateErrors.noCheckpoint(s"$root")
    files.mkdirs(own)
    Seq(unfinished, deleted).foreach(
      CheckpointFiles.write(files, _, overwriteIfPossible = true)(_ => ())
    )
    forgetSuccessor()
    val needed = references.sweep()
    if (needed.isEmpty) {
      deleteAll()
      0
    } else {
      val runs = needed.flatMap(references.filesOf).distinct
      keepOnly(runs ++ needed.map(_.path))
      runs.size
    }
  }

  /** The checkpoint that has taken this one's place need not look here any more, whatever is
    * written here later.
    */
  private def forgetSuccessor(): Unit =
    CheckpointOwner.moved(root, files).map(new Path(_)).foreach { to =>
      val there = CheckpointFiles.create(to, conf)
      if (
        CheckpointOwner
          .successor(to, there)
          .exists(of => CheckpointFiles.isSamePlace(new Path(of.original), root))
      ) there.delete(new Path(to, OwnerFiles.SuccessorFile))
    }

  private def deleteAll(): Unit = {
    def others(folder: Path, but: Path*) =
      fs.listStatus(folder).map(_.getPath).filterNot(path => but.exists(_.getName == path.getName))
    others(root, own).foreach(fs.delete(_, true))
    CheckpointBases.all(root, conf).values.foreach { base =>
      base.reference.foreach(letGo(new Path(base.checkpoint), _))
    }
    others(own, unfinished, deleted).foreach(fs.delete(_, true))
    fs.delete(root, true): Unit
  }

  private def letGo(base: Path, reference: String): Unit = if (fsOf(base).exists(base)) {
    new StoredReferences(base, conf).release(reference)
    // The part of the original that was kept for this checkpoint.
    if (fsOf(base).exists(new Path(base, "_keystate/deleted")))
      new CheckpointDeletion(base, conf).run(): Unit
  }

  private def fsOf(path: Path) = path.getFileSystem(conf)

  private def keepOnly(needed: Seq[Path]): Unit = {
    val kept = needed.map(plain).toSet
    val described = plain(own)
    references
      .below(root)
      .map(_.getPath)
      .filterNot(path => kept(plain(path)) || plain(path).startsWith(s"$described/"))
      .foreach(files.delete)
  }

  private def plain(path: Path): String = Path.getPathWithoutSchemeAndAuthority(path).toString
}
