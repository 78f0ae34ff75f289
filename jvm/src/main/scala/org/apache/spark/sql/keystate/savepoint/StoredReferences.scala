package org.apache.spark.sql.keystate.savepoint

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import keystate.files.{Concurrently, StoreLocation}
import keystate.version.{PinnedVersions, References}
import org.apache.spark.sql.keystate.files.{CheckpointFiles, SparkCheckpointStorage}

/** All references among the files of a checkpoint's state ([[References]]): what savepoints need of
  * it.
  */
private[keystate] final class StoredReferences(root: Path, conf: Configuration) {
  import StoredReferences._

  private val files = CheckpointFiles.create(root, conf)
  private val records = new SavepointRecords(root, conf)

  def all(): Seq[Found] = below(new Path(root, "state")).flatMap { status =>
    References.parse(status.getPath.getName).map { case (_, id) =>
      Found(status.getPath, id, status.getModificationTime)
    }
  }

  /** Deletes abandoned references, whose writers died. References of the last minutes stay, because
    * a savepoint may be in progress; if it takes longer, it fails. Returns the remaining ones.
    */
  def sweep(): Seq[Found] = {
    val now = System.currentTimeMillis
    val (forgotten, needed) = all().groupBy(_.id).toSeq.partition { case (id, of) =>
      records.read(id) match {
        case Some(record) => record.state == SavepointRecords.Abandoned
        case None =>
          now - of.map(_.modified).max > PinnedVersions.LeaseMillis && records.abandon(id)
      }
    }
    delete(forgotten.flatMap(_._2))
    needed.flatMap(_._2)
  }

  /** Releases a savepoint's references to this checkpoint. The savepoint must be out of use, or
    * never have been visible.
    */
  def release(id: String): Unit = {
    val isMade = !records.abandon(id)
    forget(id)
    if (isMade) records.delete(id)
  }

  /** Like `release`, for a savepoint that only its maker can know. It writes nothing, because the
    * disk may be full.
    */
  def forget(id: String): Unit = delete(all().filter(_.id == id))

  def delete(found: Seq[Found]): Unit =
    Concurrently.map(found)(one => files.delete(one.path)): Unit

  /** The run files that a reference has. */
  def filesOf(found: Found): Seq[Path] = {
    val names = relative(found.path)
    val operator = names(1).toLong
    val folder = new Path(root, s"state/$operator")
    val store = if (names.size > 4) names(3) else StoreLocation.DefaultStore
    val location = StoreLocation(operator, names(2).toInt, store)
    References
      .read(new SparkCheckpointStorage(folder, conf), location, found.path.getName)
      .getOrElse(Nil)
      .map(new Path(folder, _))
  }

  private def relative(path: Path): Seq[String] = {
    val from = Path.getPathWithoutSchemeAndAuthority(root).toString
    val whole = Path.getPathWithoutSchemeAndAuthority(path).toString
    whole.stripPrefix(s"$from/").split('/').toSeq
  }

  /** All files below a folder. */
  def below(folder: Path): Seq[FileStatus] =
    try {
      val (folders, plain) = files.list(folder).toSeq.partition(_.isDirectory)
      plain ++ Concurrently.map(folders.map(_.getPath))(below).flatten
    } catch { case _: FileNotFoundException => Nil }
}

private[keystate] object StoredReferences {

  /** @param modified
    *   in ms since the epoch, by the file system's clock
    */
  final case class Found(path: Path, id: String, modified: Long)
}
