package keystate.checkpoint

import scala.collection.mutable

import org.slf4j.LoggerFactory

import keystate.files.{CheckpointStorage, StoreLocation, StoredFile}
import keystate.version.{FileSource, PinnedVersions, References, ReferredFiles, Run, VersionFile}

/** Deletes what no retained version needs.
  *
  * Version files go when enough newer versions exist and nobody pins them, see [[PinnedVersions]]. A
  * run file goes when no remaining version file lists it and it is older than the oldest of these,
  * by its version and by its time: a file that is newer can belong to a commit under way, or to a
  * late attempt at a version that remains.
  * Temporary files of writers that died go when they are that old. Files with other names are left
  * alone. If any remaining version file cannot be read, no run file is deleted.
  *
  * Run files from before the last rescale may be in use by other partitions: the first partition
  * deletes them for all, see [[SharedFiles]]. Those that another checkpoint lists stay, see
  * [[References]].
  *
  * Few requests: the folder is listed only once enough versions have been committed since the last
  * time. What a version lists is remembered where its file can't be replaced any more.
  */
private[checkpoint] final class CleanUp(
    location: StoreLocation,
    storage: CheckpointStorage,
    settings: StoreSettings
) {
  import CleanUp._

  private val log = LoggerFactory.getLogger(classOf[CleanUp])
  private val enough = Math.max(1, settings.minVersionsToDelete)
  private val referred = new ReferredFiles(storage)
  private val shared = new SharedFiles(location, storage, referred)

  /** When the folder is to be listed next: the version that must have been committed. */
  private var nextVersion = 0L

  /** What the versions list whose files stay as they are, by file name. */
  private var known = Map.empty[String, Listed]

  /** Each path in these once: a version lists mostly what the one before it lists. */
  private val strings = mutable.HashMap.empty[String, String]

  /** Deletes, once enough versions can go. Throws what reading a remaining version file throws.
    *
    * @param version
    *   the one that is loaded
    * @param inUse
    *   runs that are needed though no version file may list them yet
    */
  def run(version: Long, inUse: Seq[Run]): Unit = if (version >= nextVersion) {
    val files = storage.list(location.folder)
    val versions = files.flatMap { file =>
      VersionFile.parse(file.name).map { case (version, id) => (file, version, id) }
    }
    if (versions.nonEmpty) {
      // Three versions more than asked for stay. The newest may be of a batch that the driver has
      // not committed. And with format v1 a late attempt at the oldest version that must load needs
      // the runs of the one before it, and what was merged during the commit of that one, which is
      // younger than the version before it.
      val newestVersion = versions.map(_._2).max
      val oldestUnpinned = newestVersion - settings.minVersionsToRetain - 2
      val newest = files.map(_.modified).max
      val (pinned, over) = PinnedVersions.among(files, newest)
      val oldestRetained = (pinned + oldestUnpinned).min
      val (retained, old) = versions.partition { case (_, version, _) =>
        version >= oldestUnpinned || pinned(version)
      }
      val deletable = old.map(_._2).distinct.size
      if (deletable >= enough) {
        delete(old.map { case (file, _, _) => path(file) } ++ over.map(path))
        val lists = retained.map { case (file, version, id) => listedBy(file, version, id, newest) }
        known = retained.map(_._1.name).zip(lists).filter { case (_, of) => of.isFinal }.toMap
        strings.clear()
        known.values.flatMap(_.paths).foreach(path => strings(path) = path)
        val rescaledAt = lists.flatMap(_.rescaledAt).maxOption.getOrElse(-1L)
        val needed = inUse.map(_.source).collect { case FileSource(path) => path }.toSet ++
          lists.flatMap(_.paths) ++ referred.in(location, files)
        val oldest = retained.map(_._1.modified).min
        val stale = files.filter(_.modified < oldest)
        val runs = stale.filter { file =>
          RunFiles.versionOf(file.name).exists(run => run > rescaledAt && run < oldestRetained)
        }
        val temporary = stale.filter(file => isTemporary(file.name))
        val ofAll =
          if (location.partition == 0) shared.unneeded(oldestRetained, lists.map(_.rescale), files)
          else Nil
        delete(((runs ++ temporary).map(path) ++ ofAll).filterNot(needed).distinct)
      }
      val left = if (deletable >= enough) 0 else deletable
      nextVersion = newestVersion + enough - left
    }
  }

  /** Reads a version file, or remembers it. With checkpoint format v1 a late attempt may still
    * replace it by one of the same name. Then it is younger, by more than a file system's clock may
    * leave out, if the one that was read had some age.
    */
  private def listedBy(file: StoredFile, version: Long, id: Option[String], newest: Long): Listed =
    known.get(file.name).filter(_.modified == file.modified).getOrElse {
      val manifest = VersionFile.read(storage, location, version, id)
      val isOld = file.modified < newest - SettledMillis
      Listed(
        file.modified,
        StoreReader.files(manifest).map(path => strings.getOrElseUpdate(path, path)),
        manifest.partitioning.rescaledAt,
        SharedFiles.Rescale.of(manifest),
        isFinal = manifest.id.isDefined || isOld
      )
    }

  private def path(file: StoredFile): String = s"${location.folder}/${file.name}"

  private def delete(paths: Seq[String]): Unit = {
    paths.foreach(path => log.info("Deleting {}", storage.describe(path)))
    storage.deleteAll(paths)
  }
}

private[checkpoint] object CleanUp {

  /** After how long a file's time differs from that of one which replaces it. */
  private final val SettledMillis = 60000L

  /** What a version file lists.
    *
    * @param isFinal
    *   whether the file stays as it is as long as it has this time
    */
  private final case class Listed(
      modified: Long,
      paths: Seq[String],
      rescaledAt: Option[Long],
      rescale: Option[SharedFiles.Rescale],
      isFinal: Boolean
  )

  /** Whether this is the name of a version, run, pin or reference file that is not complete. */
  def isTemporary(name: String): Boolean = CheckpointStorage.unfinished(name).exists { of =>
    VersionFile.parse(of).isDefined || RunFiles.versionOf(of).isDefined ||
    PinnedVersions.parse(of).isDefined || References.parse(of).isDefined
  }
}
