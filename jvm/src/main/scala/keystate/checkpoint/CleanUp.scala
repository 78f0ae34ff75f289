package keystate.checkpoint

import org.slf4j.LoggerFactory

import keystate.files.{CheckpointStorage, StoreLocation, StoredFile}
import keystate.version.{FileSource, Run, VersionFile}

/** Deletes what no retained version needs.
  *
  * Version files go when enough newer versions exist. A run file goes when no remaining version
  * file lists it and it is older than the oldest of these, by its version and by its time: a file
  * that is newer can belong to a commit under way, or to a late attempt at a version that remains.
  * Temporary files of writers that died go when they are that old. Files with other names are left
  * alone. If any remaining version file cannot be read, no run file is deleted.
  *
  * Run files from before the last rescale may be in use by other partitions: the first partition
  * deletes them for all, see [[SharedFiles]].
  */
private[checkpoint] final class CleanUp(
    location: StoreLocation,
    storage: CheckpointStorage,
    settings: StoreSettings
) {
  private val log = LoggerFactory.getLogger(classOf[CleanUp])

  /** Deletes, once enough versions can go. Throws what reading a remaining version file throws.
    *
    * @param inUse
    *   runs that are needed though no version file may list them yet
    */
  def run(inUse: Seq[Run]): Unit = {
    val files = storage.list(location.folder)
    val versions = files.flatMap { file =>
      VersionFile.parse(file.name).map { case (version, id) => (file, version, id) }
    }
    if (versions.nonEmpty) {
      // Three versions more than asked for stay. The newest may be of a batch that the driver has
      // not committed. And with format v1 a late attempt at the oldest version that must load needs
      // the runs of the one before it, and what was merged during the commit of that one, which is
      // younger than the version before it.
      val oldestRetained = versions.map(_._2).max - settings.minVersionsToRetain - 2
      val (retained, old) = versions.partition(_._2 >= oldestRetained)
      if (old.map(_._2).distinct.size >= Math.max(1, settings.minVersionsToDelete)) {
        old.foreach { case (file, _, _) => delete(path(file)) }
        val manifests = retained.map { case (_, version, id) =>
          VersionFile.read(storage, location, version, id)
        }
        val needed = inUse ++ manifests.flatMap(_.runs)
        val shared = manifests.flatMap(_.rescaledAt).maxOption.getOrElse(-1L)
        val neededPaths = needed.map(_.source).collect { case FileSource(path) => path }.toSet
        val oldest = retained.map(_._1.modified).min
        val stale = files.filter(_.modified < oldest)
        stale
          .filter(file =>
            RunFiles.versionOf(file.name).exists(run => run > shared && run < oldestRetained)
          )
          .map(path)
          .filterNot(neededPaths)
          .foreach(delete)
        stale.filter(file => CleanUp.isTemporary(file.name)).map(path).foreach(delete)
        if (location.partition == 0)
          new SharedFiles(location, storage)
            .unneeded(oldestRetained, manifests)
            .filterNot(neededPaths)
            .foreach(delete)
      }
    }
  }

  private def path(file: StoredFile): String = s"${location.folder}/${file.name}"

  private def delete(path: String): Unit = {
    log.info("Deleting {}", storage.describe(path))
    storage.delete(path)
  }
}

private[checkpoint] object CleanUp {
  private val Temporary = """\.([^.]+\.(?:keystate|sst|lz4|run))\..+\.tmp""".r

  /** Whether Spark's CheckpointFileManager gives this name to a version or run file that is not
    * complete: `.<name>.<anything>.tmp`.
    */
  def isTemporary(name: String): Boolean = name match {
    case Temporary(of) => VersionFile.parse(of).isDefined || RunFiles.versionOf(of).isDefined
    case _ => false
  }
}
