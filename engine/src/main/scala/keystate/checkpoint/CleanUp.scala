package keystate.checkpoint

import scala.collection.mutable

import org.slf4j.LoggerFactory

import keystate.files.{CheckpointStorage, StoreLocation, StoredFile}
import keystate.version.{FileSource, PinnedVersions, References, ReferredFiles, Run, VersionFile}

/** Deletes files that no retained version needs.
  *
  * A version file is deleted when enough newer versions exist and nobody pins it, see
  * [[PinnedVersions]]. A run file is deleted when no remaining version file lists it and it is
  * older than the oldest of these, by its version and by its time: a newer file can belong to a
  * commit in progress, or to a late attempt at a version that remains. Temporary files of dead
  * writers are deleted at the same age. Files with other names stay. If any remaining version file
  * cannot be read, no run file is deleted.
  *
  * Other partitions may use run files from before the last rescale: the first partition deletes
  * them for all, see [[SharedFiles]]. Files that another checkpoint lists stay, see [[References]].
  *
  * Few requests: the folder is listed only once enough versions have been committed since the last
  * time. The content of a version file is kept in memory once the file can no longer be replaced.
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

  /** The content of version files that can no longer change, by file name. */
  private var known = Map.empty[String, Listed]

  /** One copy of each path in these: a version lists mostly the same paths as the version before.
    */
  private val strings = mutable.HashMap.empty[String, String]

  /** Deletes files, once enough versions can be deleted. Throws the error of reading a remaining
    * version file.
    *
    * @param version
    *   the loaded version
    * @param inUse
    *   runs that are needed although no version file may list them yet
    */
  def run(version: Long, inUse: Seq[Run]): Unit = if (version >= nextVersion) {
    val files = storage.list(location.folder)
    val versions = files.flatMap { file =>
      VersionFile.parse(file.name).map { case (version, id) => (file, version, id) }
    }
    if (versions.nonEmpty) {
      // Three versions more than configured stay. The newest may belong to a batch that the driver
      // has not committed. And with format v1 a late attempt at the oldest loadable version needs
      // the runs of the version before it, and any merge from the commit of that version, which is
      // younger than the one before that.
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

  /** Reads a version file, or returns its known content. With checkpoint format v1 a late attempt
    * may still replace the file by one of the same name. If the file had some age when it was read,
    * its replacement is younger by more than the error of a file system's clock.
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

  /** The age from which a file's time differs from that of its replacement. */
  private final val SettledMillis = 60000L

  /** The content of a version file.
    *
    * @param isFinal
    *   whether the file can't change as long as it has this time
    */
  private final case class Listed(
      modified: Long,
      paths: Seq[String],
      rescaledAt: Option[Long],
      rescale: Option[SharedFiles.Rescale],
      isFinal: Boolean
  )

  /** Whether this is the name of an incomplete version, run, pin or reference file. */
  def isTemporary(name: String): Boolean = CheckpointStorage.unfinished(name).exists { of =>
    VersionFile.parse(of).isDefined || RunFiles.versionOf(of).isDefined ||
    PinnedVersions.parse(of).isDefined || References.parse(of).isDefined
  }
}
