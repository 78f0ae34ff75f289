package keystate.checkpoint

import keystate.files.{CheckpointStorage, Concurrently, StoreLocation, StoredFile}
import keystate.version.{Manifest, Partitioning, PinnedVersions, ReferredFiles, VersionFile}

/** Finds files of a store from before its last rescale that nothing needs any more: run files,
  * which several partitions may use, and the folders of partitions that no longer exist. No
  * partition can know whether another one needs a file. The first partition, which every
  * partitioning has, does it for all.
  *
  * It starts once every retained version of every partition was written after the rescale. From
  * then on a file that no retained version lists can't be listed again, because a version lists
  * only files of the version that it was made from, or of a rescale's, and new files. A file that
  * is younger than a retained version stays: it may be a merge of old runs that the next commit
  * lists. All retained versions are read, not just the oldest: with checkpoint format v1 a late
  * attempt may have replaced any of them by a version with other files.
  *
  * Files that other checkpoints refer to stay, see [[keystate.version.References]].
  *
  * Once no file of a rescale is left, the folders are not listed again.
  *
  * A state that was never rescaled may have files of an abandoned rescale, or of a first batch that
  * was started with more partitions. They are only in folders of partitions that the state does not
  * have.
  */
private[checkpoint] final class SharedFiles(
    location: StoreLocation,
    storage: CheckpointStorage,
    referred: ReferredFiles
) {
  import SharedFiles._

  private var done = Option.empty[Rescale]

  /** The paths of the files that nothing needs. Throws what reading a retained version throws.
    *
    * @param oldest
    *   the oldest version that is retained
    * @param rescales
    *   the last rescales that the first partition's versions from that one on know of
    * @param own
    *   the files in the first partition's folder
    */
  def unneeded(oldest: Long, rescales: Seq[Option[Rescale]], own: Seq[StoredFile]): Seq[String] =
    rescales.distinct match {
      case Seq(Some(rescale)) if rescale.at < oldest && !done.contains(rescale) =>
        unneeded(oldest, rescale, own)
      case _ => Nil
    }

  private def unneeded(oldest: Long, rescale: Rescale, own: Seq[StoredFile]): Seq[String] = {
    val partitions = storage.folders().flatMap(_.toIntOption)
    if (rescale.at == Partitioning.AtStart && partitions.forall(_ < rescale.partitions)) {
      done = Some(rescale)
      Nil
    } else unneeded(oldest, rescale, own, partitions)
  }

  private def unneeded(
      oldest: Long,
      rescale: Rescale,
      own: Seq[StoredFile],
      partitions: Seq[Int]
  ): Seq[String] = {
    val (owners, gone) = Concurrently
      .map(partitions) { partition =>
        val here = location.copy(partition = partition)
        new Folder(here, oldest, if (here == location) own else storage.list(here.folder))
      }
      .partition(_.partition < rescale.partitions)
    val isOver = owners.size == rescale.partitions && owners.forall(_.retained.nonEmpty) &&
      gone.forall(_.retained.isEmpty)
    val left = owners.flatMap(_.runsUntil(rescale.at)) ++ gone.flatMap(_.files)
    if (left.isEmpty) done = Some(rescale)
    // Cheap first: as a rule the newest versions list all that is left, and no others need be read.
    val unused = if (isOver) without(left, owners.flatMap(_.newest)) else Nil
    if (unused.isEmpty) Nil
    else {
      val retained = owners.flatMap(_.retained)
      val oldestTime = retained.map(_.file.modified).min
      if (retained.exists(version => !Rescale.of(version.manifest).contains(rescale))) Nil
      else {
        val needed = (owners ++ gone).flatMap(_.referred).toSet
        without(unused, retained)
          .filter(found => found.file.modified < oldestTime && !needed(found.path))
          .map(_.path)
      }
    }
  }

  private def without(files: Seq[Found], versions: Seq[Version]): Seq[Found] =
    if (files.isEmpty) Nil
    else {
      val listed = versions.flatMap(version => StoreReader.files(version.manifest)).toSet
      files.filterNot(found => listed(found.path))
    }

  /** A version file, which is read when its manifest is first used. */
  private final class Version(val file: StoredFile, val number: Long, read: => Manifest) {
    lazy val manifest: Manifest = read
  }

  /** The store's files in one partition. */
  private final class Folder(here: StoreLocation, oldest: Long, all: Seq[StoredFile]) {
    val partition: Int = here.partition

    val retained: Seq[Version] = for {
      file <- all
      (number, id) <- VersionFile.parse(file.name)
      if number >= oldest
    } yield new Version(file, number, VersionFile.read(storage, here, number, id))

    def referred: Set[String] = SharedFiles.this.referred.in(here, all)

    def newest: Seq[Version] = retained.filter(_.number == retained.map(_.number).max)

    def runsUntil(version: Long): Seq[Found] =
      found(name => RunFiles.versionOf(name).exists(_ <= version))

    def files: Seq[Found] = found { name =>
      RunFiles.versionOf(name).isDefined || VersionFile.parse(name).isDefined ||
      CleanUp.isTemporary(name) || PinnedVersions.parse(name).isDefined
    }

    private def found(isMeant: String => Boolean): Seq[Found] =
      all
        .filter(file => isMeant(file.name))
        .map(file => Found(s"${here.folder}/${file.name}", file))
  }
}

private[checkpoint] object SharedFiles {
  final case class Found(path: String, file: StoredFile)

  /** The last rescale that a version knows of: the version that the partitioning before it ended with
    * (`Partitioning.AtStart` if there was none), and the number of partitions since.
    */
  final case class Rescale(at: Long, partitions: Int)

  object Rescale {
    def of(manifest: Manifest): Option[Rescale] = {
      val found = manifest.partitioning
      found.partitions.map(Rescale(found.rescaledAt.getOrElse(Partitioning.AtStart), _))
    }
  }
}
