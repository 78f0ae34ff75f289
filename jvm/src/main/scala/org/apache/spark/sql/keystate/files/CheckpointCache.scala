package org.apache.spark.sql.keystate.files

import java.util.{LinkedHashMap => JLinkedHashMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FileStatus, Path}

/** A run's copy of the logs and the metadata in its checkpoint, so that it requests each file from
  * the store only once. Without it a start reads the same entries up to nine times, and each
  * micro-batch looks for every log entry that it is about to write.
  *
  * This is safe because the run owns the checkpoint ([[CheckpointOwner]]): only its driver writes
  * these files, and every write or delete is noted here, in any thread. If another driver takes the
  * checkpoint, this copy gets old. That does no harm: the store itself refuses an entry that exists
  * already, and before each entry the run checks in the store whether it is still the owner.
  *
  * Only the run's own thread reads from here. So other readers of the checkpoint, and the next run,
  * see the store itself.
  *
  * The copy has the entries of the logs (`offsets`, `commits`, `sources/<n>`) and, until the run's
  * first commit, the metadata of the operators. It does not have files that tasks write: the first
  * tasks may make the folders of operators, and they run before the first commit ends.
  *
  * @param thread
  *   the run's own thread
  */
private final class CheckpointCache(checkpoint: Path, thread: Thread) {
  import CheckpointCache._

  private val contents = new JLinkedHashMap[Path, Array[Byte]](16, 0.75f, true)
  private var bytes = 0L
  private val listings = mutable.Map.empty[Path, mutable.Map[String, FileStatus]]
  private var committed = false
  private var count = 0L

  def isReader: Boolean = Thread.currentThread eq thread

  /** The number of changes. Content that was read before a change is not kept after it. */
  def changes: Long = synchronized(count)

  /** Whether the path is a folder whose files are known once it was listed. */
  def isFolder(path: Path): Boolean = synchronized {
    namesOf(path) match {
      case Seq(log) => Logs(log) || !committed && log == State
      case Seq(Sources, _) => true
      case names => !committed && isMetadataFolder(names)
    }
  }

  /** Whether the path is a file whose content is kept once it was read or written. */
  def isFile(path: Path): Boolean = synchronized {
    namesOf(path) match {
      case Seq(log, _) if Logs(log) => true
      case Seq(Sources, _, _) => true
      case Seq(State, _, "_keystate", "operator") => !committed
      case names => !committed && isInMetadata(names) && !isMetadataFolder(names)
    }
  }

  private def isInMetadata(names: Seq[String]) =
    names.headOption.contains(State) && names.exists(Metadata)

  private def isMetadataFolder(names: Seq[String]) = isInMetadata(names) &&
    (Metadata(names.last) || names.last == "v2" || names.takeRight(2).head == Schemas)

  def content(file: Path): Option[Array[Byte]] = synchronized(Option(contents.get(file)))

  def listing(folder: Path): Option[Seq[FileStatus]] =
    synchronized(listings.get(folder).map(_.values.toSeq))

  /** Whether the file or folder exists. None if that is not known. */
  def exists(path: Path): Option[Boolean] = synchronized {
    def isThere(known: Path) = known == path || isBelow(known, path)
    if (
      contents.keySet.asScala.exists(isThere) ||
      listings.exists { case (folder, files) => files.nonEmpty && isThere(folder) }
    ) Some(true)
    else listings.get(path.getParent).map(_.contains(path.getName))
  }

  /** Keeps the content that was read, unless something changed since `before`. */
  def read(file: Path, content: Array[Byte], before: Long): Unit = synchronized {
    if (count == before && isFile(file)) keep(file, content)
  }

  /** Keeps the list, unless something changed since `before`. */
  def listed(folder: Path, found: Seq[FileStatus], before: Long): Unit = synchronized {
    if (count == before && isFolder(folder))
      listings(folder) = mutable.LinkedHashMap.from(found.map(file => file.getPath.getName -> file))
  }

  /** Notes a file that was written and had not been there. */
  def wrote(file: Path, content: Array[Byte]): Unit = synchronized {
    if (isFile(file)) {
      keep(file, content)
      listings.get(file.getParent).foreach {
        _(file.getName) =
          new FileStatus(content.length.toLong, false, 1, 0, System.currentTimeMillis, file)
      }
    }
    made(file)
    if (file.getParent == new Path(checkpoint, Commits) && !committed) {
      committed = true
      val state = new Path(checkpoint, State)
      forgetAll(path => path == state || isBelow(path, state))
    }
  }

  /** Notes a folder that was made. What lists a folder above without it is forgotten. */
  def made(path: Path): Unit = synchronized {
    count += 1
    Iterator
      .iterate(path)(_.getParent)
      .takeWhile(isBelow(_, checkpoint))
      .foreach(path => if (!exists(path).contains(true)) listings.remove(path.getParent))
  }

  /** Notes that a path may have been changed in a way that is not known. */
  def forget(path: Path): Unit = synchronized {
    count += 1
    forgetAll(known => known == path || isBelow(known, path) || isBelow(path, known))
  }

  /** Notes that a path was deleted. With its last file a folder goes too, in an object store. */
  def deleted(path: Path): Unit = synchronized {
    val siblings = listings.get(path.getParent)
    forget(path)
    siblings.foreach { files =>
      files.remove(path.getName)
      listings(path.getParent) = files
    }
  }

  private def keep(file: Path, content: Array[Byte]): Unit = if (content.length <= MostOfFile) {
    Option(contents.put(file, content)).foreach(old => bytes -= old.length)
    bytes += content.length
    val eldest = contents.entrySet.iterator
    while (bytes > MostOfAll || contents.size > MostFiles) {
      bytes -= eldest.next().getValue.length
      eldest.remove()
    }
  }

  private def forgetAll(which: Path => Boolean): Unit = {
    contents.asScala.keys.filter(which).toSeq.foreach(bytes -= contents.remove(_).length)
    listings.keys.filter(which).toSeq.foreach(listings.remove)
  }

  private def isBelow(path: Path, folder: Path): Boolean =
    path != null && path.depth > folder.depth &&
      (path.getParent == folder || isBelow(path.getParent, folder))

  /** The names on the way from the checkpoint to a path in it. */
  private def namesOf(path: Path): Seq[String] =
    Iterator
      .iterate(path)(_.getParent)
      .takeWhile(at => at != null && at != checkpoint)
      .map(_.getName)
      .toSeq
      .reverse
}

private object CheckpointCache {

  /** No log entry is as long in sane queries; the compact files of a file source can be. */
  final val MostOfFile = 1 << 20
  private final val MostOfAll = 4L << 20
  private final val MostFiles = 64

  private final val Commits = "commits"
  private final val Logs = Set("offsets", Commits)
  private final val Sources = "sources"
  private final val State = "state"
  private final val Schemas = "_stateSchema"
  private final val Metadata = Set("_metadata", Schemas)
}
