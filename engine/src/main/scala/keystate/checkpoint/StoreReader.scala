package keystate.checkpoint

import java.io.FileNotFoundException
import java.nio.ByteBuffer
import java.nio.file.NoSuchFileException
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import keystate.backend.{Change, RunCursor, StateFamily}
import keystate.errors.{CheckpointException, MissingRunException, MissingVersionException}
import keystate.files.{CheckpointStorage, Concurrently, LocalFolder, StoreLocation}
import keystate.keygroup.KeyGroupRange
import keystate.version.{
  FileSource, InlineSource, Manifest, ManifestRules, PlainRun, Run, RunMerge, VersionFile,
  VersionFinder
}

/** Reads the committed versions of a store, for operations on a checkpoint. It loads and changes
  * nothing. Missing or damaged files are a [[CheckpointException]].
  */
final class StoreReader(
    val location: StoreLocation,
    storage: CheckpointStorage,
    local: LocalFolder
) {
  private val runs = new RunFiles(location, storage, local)

  /** The versions that there are files of, oldest first, each with what follows it in the file's
    * name: an id, or with checkpoint format v1 a partitioning.
    */
  def versions(): Seq[(Long, Option[String])] =
    storage.list(location.folder).flatMap(file => VersionFile.parse(file.name)).sortBy(_._1)

  /** A version in the partitioning that a query with so many partitions reads. */
  def manifest(version: Long, id: Option[String], parallelism: Int): Manifest =
    VersionFinder.read(storage, location, version, id, Some(parallelism))

  /** The content of a version's file; `name` is the part of the file's name after the version. */
  def stored(version: Long, name: Option[String]): Manifest =
    VersionFile.read(storage, location, version, name)

  /** The path of the file that `manifest` reads, relative to the operator's folder. */
  def versionFile(version: Long, id: Option[String], parallelism: Int): String =
    VersionFinder.file(storage, location, version, id, Some(parallelism))

  /** The entries of a state, ordered by group and key, without those of the operator group. Close
    * them.
    */
  def entries(manifest: Manifest, family: StateFamily): Iterator[Change] with AutoCloseable =
    entries(manifest, family, manifest.partitioning.groups)

  /** The entries of a state in the operator group, which belong to a subtask. Close them. */
  def subtaskEntries(
      manifest: Manifest,
      family: StateFamily
  ): Iterator[Change] with AutoCloseable = {
    val group = manifest.partitioning.operatorGroup
    entries(manifest, family, KeyGroupRange(group, group))
  }

  /** The entries of a state in these key groups, in the order of groups and keys; close them. */
  def entries(
      manifest: Manifest,
      family: StateFamily,
      groups: KeyGroupRange
  ): Iterator[Change] with AutoCloseable =
    merged(manifest, manifest.runs, family, groups, keepRemovals = false)

  /** The changes of a state in these key groups by a version's commit, in the same order: new
    * entries, and removals, which have no value. Close them.
    */
  def changes(
      manifest: Manifest,
      family: StateFamily,
      groups: KeyGroupRange
  ): Iterator[Change] with AutoCloseable =
    merged(manifest, manifest.committedRuns, family, groups, keepRemovals = true)

  /** The changes of a state in these key groups by commits after a version, as far as runs still
    * show them, in the same order. Runs that were merged since also contain unchanged entries.
    */
  def changesSince(
      version: Long,
      manifest: Manifest,
      family: StateFamily,
      groups: KeyGroupRange
  ): Iterator[Change] with AutoCloseable = {
    val newer = manifest.runs.filter(_.version > version)
    merged(manifest, newer, family, groups, keepRemovals = true)
  }

  private def merged(
      manifest: Manifest,
      all: Seq[Run],
      family: StateFamily,
      groups: KeyGroupRange,
      keepRemovals: Boolean
  ) = new RunMerge(
    all
      .filter(_.groups.intersects(groups))
      .map(runs.read(_, isWhole = false, Set(family.id), groups, manifest.version))
      .toIndexedSeq,
    keepRemovals
  )

  /** The entries of a state and group from one entry key until another one, in order.
    *
    * @param known
    *   entries found in run files before, for versions that share the files; this call adds to it
    */
  def find(
      manifest: Manifest,
      family: StateFamily,
      group: Int,
      from: Array[Byte],
      until: Array[Byte],
      known: FoundInRuns = new FoundInRuns
  ): Vector[Change] = {
    val having = manifest.runs.filter(_.groups.contains(group))
    def found(run: Run) = known(run, family.id, group, from) {
      runs.find(run, family.id, group, from, until, manifest.version)
    }
    Concurrently.map(having.filterNot(known.has(_, family.id, group, from)))(found)
    val entries = having.map(run => new FoundEntries(found(run)))
    new RunMerge(entries.toIndexedSeq, keepRemovals = false).toVector
  }

  /** The files in which an entry of a group, or a removal, has a wanted key: all files in the
    * store's folder, whether a version lists them or not, and files of other folders that the
    * store's versions list. Each file comes with the versions that list it; a version file comes
    * with its own version.
    */
  def filesWith(group: Int)(isWanted: Array[Byte] => Boolean): Seq[(String, Seq[Long])] = {
    val names = storage.list(location.folder).map(_.name)
    val manifests = for {
      name <- names
      (version, id) <- VersionFile.parse(name)
      manifest <- ifThere(stored(version, id))
    } yield s"${location.folder}/$name" -> manifest
    val families = (0 until manifests.map(_._2.nextFamilyId).maxOption.getOrElse(0)).toSet
    val groups = KeyGroupRange(group, group)
    val own = manifests.filter { case (_, manifest) =>
      manifest.runs.map(_.source).exists {
        case inline: InlineSource =>
          PlainRun.read(inline.content, families, groups).exists(entry => isWanted(entry.key))
        case _: FileSource => false
      }
    }
    val listed = for {
      (_, manifest) <- manifests
      path <- StoreReader.files(manifest)
    } yield path -> manifest.version
    val there =
      names.filter(RunFiles.versionOf(_).isDefined).map(name => s"${location.folder}/$name")
    val files = (there ++ listed.map(_._1)).distinct
      .filter(path => ifThere(runs.hasEntry(path, families, groups)(isWanted)).contains(true))
    own.map { case (file, manifest) => file -> Seq(manifest.version) } ++
      files.map(path =>
        path -> listed.collect { case (`path`, version) => version }.distinct.sorted
      )
  }

  /** None if the clean-up of a running query has deleted the file meanwhile. */
  private def ifThere[T](read: => T): Option[T] =
    try Some(read)
    catch {
      case _: FileNotFoundException | _: NoSuchFileException | _: MissingVersionException |
          _: MissingRunException =>
        None
    }

  /** Reads every byte of a version, and returns all that is wrong.
    *
    * @param checked
    *   the paths of run files that were read before and are not read again; this adds to them
    */
  def verify(
      version: Long,
      id: Option[String],
      checked: mutable.Set[String]
  ): Seq[CheckpointException] =
    try {
      val manifest = VersionFile.read(storage, location, version, id)
      manifest.runs.flatMap { run =>
        run.source match {
          case FileSource(path) if checked.add(path) =>
            try {
              runs.check(run, path, version)
              None
            } catch { case e: CheckpointException => Some(e) }
          case _ => None
        }
      }
    } catch { case e: CheckpointException => Seq(e) }

  /** Reads every byte of a version's run files. Throws for the first that is lost or damaged. */
  def check(manifest: Manifest): Unit = manifest.runs.foreach { run =>
    run.source match {
      case FileSource(path) => runs.check(run, path, manifest.version)
      case _ =>
    }
  }

  /** The error for a version that should be there and is not. */
  def missing(version: Long, id: Option[String]): CheckpointException =
    new MissingVersionException(
      location,
      version,
      storage.describe(VersionFile.path(location, version, id)),
      null
    )
}

/** The entries that [[StoreReader.find]] found in run files, which never change. Each range of a
  * key begins with a different entry key, which therefore identifies the range. Any thread may use
  * it; if several threads look for the same range, one reads and the others wait.
  */
final class FoundInRuns {
  import FoundInRuns._
  private val found = new ConcurrentHashMap[Range, Once]

  private[checkpoint] def apply(run: Run, family: Int, group: Int, from: Array[Byte])(
      find: => Vector[Change]
  ): Vector[Change] = run.source match {
    case FileSource(path) =>
      found.computeIfAbsent(rangeOf(path, family, group, from), _ => new Once(find)).entries
    case _ => find
  }

  /** Whether the result is known, so that no file need be read. */
  private[checkpoint] def has(run: Run, family: Int, group: Int, from: Array[Byte]): Boolean =
    run.source match {
      case FileSource(path) => found.containsKey(rangeOf(path, family, group, from))
      case _ => true
    }
}

private object FoundInRuns {
  private type Range = (String, Int, Int, ByteBuffer)

  private def rangeOf(path: String, family: Int, group: Int, from: Array[Byte]): Range =
    (path, family, group, ByteBuffer.wrap(from))

  private final class Once(find: => Vector[Change]) {
    lazy val entries: Vector[Change] = find
  }
}

/** Entries in memory. */
private final class FoundEntries(found: Vector[Change]) extends RunCursor {
  private val entries = found.iterator
  override def hasNext: Boolean = entries.hasNext
  override def next(): Change = entries.next()
  override def close(): Unit = ()
}

object StoreReader {

  /** Whether this is a valid version id. */
  def isId(text: String): Boolean = text != null && ManifestRules.isId(text)

  /** Whether this is a valid store name. */
  def isStore(name: String): Boolean = name != null && ManifestRules.isId(name)

  /** The paths of a version's run files, relative to the operator's folder, each once. */
  def files(manifest: Manifest): Seq[String] =
    manifest.runs.map(_.source).collect { case FileSource(path) => path }.distinct
}

/** How many keys of a state differ between two checkpoints. */
final case class KeyDifference(added: Long, removed: Long, changed: Long, same: Long)

/** Compares a state in two checkpoints, given each partition's entries ordered by group and key.
  * Partitions may have the same groups, as those of Spark's own operators do.
  */
object KeyDifference {
  private final class Keyed(val group: Int, val key: Array[Byte], val entries: Seq[Change])

  /** Compares key by key; a key differs if any of its entries differs.
    *
    * @param keyOf
    *   the prefix of an entry key that identifies the key; no prefix is a prefix of another one
    */
  def of(
      before: Seq[Iterator[Change]],
      after: Seq[Iterator[Change]],
      keyOf: Array[Byte] => Array[Byte]
  ): KeyDifference = {
    val left = byKey(merged(before), keyOf).buffered
    val right = byKey(merged(after), keyOf).buffered
    var added, removed, changed, same = 0L
    while (left.hasNext || right.hasNext) {
      val order =
        if (left.isEmpty) 1
        else if (right.isEmpty) -1
        else compare(left.head.group, left.head.key, right.head.group, right.head.key)
      if (order < 0) {
        removed += 1
        left.next()
      } else if (order > 0) {
        added += 1
        right.next()
      } else if (equal(left.next().entries, right.next().entries)) same += 1
      else changed += 1
    }
    KeyDifference(added, removed, changed, same)
  }

  /** The entries of all partitions in the order of their groups and keys. Of each partition one is
    * held.
    */
  private def merged(partitions: Seq[Iterator[Change]]): Iterator[Change] = {
    val heads = mutable.PriorityQueue.empty[collection.BufferedIterator[Change]] { (a, b) =>
      compare(b.head.group, b.head.key, a.head.group, a.head.key)
    }
    heads ++= partitions.map(_.buffered).filter(_.hasNext)
    Iterator.continually(()).takeWhile(_ => heads.nonEmpty).map { _ =>
      val first = heads.dequeue()
      val entry = first.next()
      if (first.hasNext) heads += first
      entry
    }
  }

  private def byKey(
      entries: Iterator[Change],
      keyOf: Array[Byte] => Array[Byte]
  ): Iterator[Keyed] = {
    val rest = entries.buffered
    Iterator.continually(()).takeWhile(_ => rest.hasNext).map { _ =>
      val first = rest.next()
      val key = keyOf(first.key)
      val of = mutable.ArrayBuffer(first)
      while (
        rest.hasNext && rest.head.group == first.group &&
        java.util.Arrays.equals(keyOf(rest.head.key), key)
      ) of += rest.next()
      new Keyed(first.group, key, of.toSeq)
    }
  }

  private def compare(group: Int, key: Array[Byte], otherGroup: Int, other: Array[Byte]): Int =
    if (group != otherGroup) Integer.compare(group, otherGroup)
    else java.util.Arrays.compareUnsigned(key, other)

  private def equal(a: Seq[Change], b: Seq[Change]): Boolean =
    a.size == b.size && a.zip(b).forall { case (x, y) =>
      java.util.Arrays.equals(x.key, y.key) && java.util.Arrays.equals(x.value, y.value)
    }
}
