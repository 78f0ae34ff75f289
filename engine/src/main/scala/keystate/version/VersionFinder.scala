package keystate.version

import keystate.errors.{MissingVersionException, MixedPartitionsException}
import keystate.files.{CheckpointStorage, StoreLocation}

/** Finds a version's file by the partitioning of the query. Only with checkpoint format v1 can one
  * version have several, one for each partitioning that it was rescaled to.
  */
private[keystate] object VersionFinder {

  /** Reads a version's file, as `read`; throws MixedPartitionsException for a version in another
    * partitioning.
    */
  def readOf(
      storage: CheckpointStorage,
      location: StoreLocation,
      version: Long,
      id: Option[String],
      parallelism: Int
  ): Manifest = {
    val manifest = read(storage, location, version, id, Some(parallelism))
    manifest.partitioning.partitions.filter(_ != parallelism).foreach { other =>
      throw MixedPartitionsException.ofNumbers(location, version, other, parallelism)
    }
    manifest
  }

  /** Reads a version file. If format v1 has files for several partitionings, it reads that of the
    * requested partitioning, or the newest if none is requested.
    */
  def read(
      storage: CheckpointStorage,
      location: StoreLocation,
      version: Long,
      id: Option[String],
      parallelism: Option[Int]
  ): Manifest = {
    def named(name: Option[String]) =
      VersionFile.read(storage, location, version, name).copy(id = id)
    parallelism.filter(_ => id.isEmpty) match {
      case Some(n) =>
        // Without a look first which of the two there is.
        try named(Some(VersionFile.partitionsName(n)))
        catch { case _: MissingVersionException => named(None) }
      case None => named(nameOf(storage, location, version, id, parallelism))
    }
  }

  /** The path of the version file that `read` reads. */
  def file(
      storage: CheckpointStorage,
      location: StoreLocation,
      version: Long,
      id: Option[String],
      parallelism: Option[Int]
  ): String =
    VersionFile.path(location, version, nameOf(storage, location, version, id, parallelism))

  /** The part after the version in the file's name. */
  private def nameOf(
      storage: CheckpointStorage,
      location: StoreLocation,
      version: Long,
      id: Option[String],
      parallelism: Option[Int]
  ): Option[String] = parallelism match {
    case _ if id.isDefined => id
    case Some(n) =>
      Some(VersionFile.partitionsName(n)).filter { name =>
        storage.exists(VersionFile.path(location, version, Some(name)))
      }
    case None =>
      val names = for {
        file <- storage.list(location.folder)
        (`version`, Some(name)) <- VersionFile.parse(file.name)
      } yield (file.modified, name)
      names.maxOption.map(_._2)
  }
}
