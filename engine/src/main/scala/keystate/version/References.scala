package keystate.version

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8

import keystate.errors.{CorruptFileException, MissingVersionException, UnsupportedFormatException}
import keystate.files.{CheckpointStorage, Crc32c, StoreLocation}

/** Run files of a store that another checkpoint lists: a savepoint by reference. Clean-up keeps
  * them while the reference exists.
  *
  * A reference is a file `<version>-<id>.ref` among the store's files. It has the paths of the run
  * files, and a checksum. So it does not depend on the version's own file, which a late attempt may
  * replace with checkpoint format v1. Each savepoint has its own reference, with its own id; a run
  * file is free when the last reference to it is gone. Nothing else is counted, so no counter can
  * be wrong.
  *
  * There is no lock. A clean-up that listed the store's files before a reference was written does
  * not know of it, and may delete at any later time. But it keeps the files that the newest
  * versions of its list need, and all later files. So the writer of a reference then looks up the
  * newest version ([[isSafe]]): the reference holds only if the newest version is hardly newer than
  * the referenced one. Otherwise the writer must give it up, and refer to a newer version. That
  * needs no clock.
  */
object References {
  private final val Format = 1
  private final val Head = "KEYSTATE REFERENCE "
  private val Name = """(\d{1,18})-([0-9A-Za-z_-]{1,100})\.ref""".r

  /** The version and the id in the name of such a file. */
  def parse(name: String): Option[(Long, String)] = name match {
    case Name(version, id) => Some((version.toLong, id))
    case _ => None
  }

  def path(location: StoreLocation, version: Long, id: String): String =
    s"${location.folder}/$version-$id.ref"

  /** Refers to run files, whose paths are relative to the operator's folder. */
  def write(
      storage: CheckpointStorage,
      location: StoreLocation,
      version: Long,
      id: String,
      files: Seq[String]
  ): Unit = {
    val body = (s"$Head$Format" +: files).mkString("", "\n", "\n")
    CheckpointStorage.write(storage, path(location, version, id)) { out =>
      out.write(s"$body${checksum(body)}\n".getBytes(UTF_8))
    }
  }

  /** The paths in a reference. Throws if it can't be read: then nothing may be deleted. None if it
    * is gone.
    */
  def read(
      storage: CheckpointStorage,
      location: StoreLocation,
      name: String
  ): Option[Seq[String]] = {
    val path = s"${location.folder}/$name"
    def corrupt(detail: String) = new CorruptFileException(
      location,
      parse(name).fold(0L)(_._1),
      storage.describe(path),
      detail,
      null
    )
    val text =
      try {
        val in = storage.open(path)
        try Some(new String(in.readAllBytes(), UTF_8))
        finally in.close()
      } catch { case _: FileNotFoundException => None }
    text.map { text =>
      val at = text.lastIndexOf('\n', text.length - 2) + 1
      val body = text.take(at)
      if (text.drop(at) != s"${checksum(body)}\n") throw corrupt("its checksum is wrong")
      val lines = body.linesIterator.toSeq
      lines.headOption
        .filter(_.startsWith(Head))
        .flatMap(_.drop(Head.length).toIntOption)
        .getOrElse(throw corrupt("it does not begin as a reference does")) match {
        case Format => lines.tail
        case other => throw new UnsupportedFormatException(storage.describe(path), other, Format)
      }
    }
  }

  /** Whether no clean-up deletes the files of a version, once all of its stores have references to
    * it. Call it after that, for each store.
    *
    * A clean-up that lists the files from now on finds the reference. An earlier clean-up saw at
    * most the present newest version, and keeps the version before that too, whatever its settings
    * are; it deletes nothing that is newer than its list.
    */
  def isSafe(storage: CheckpointStorage, location: StoreLocation, version: Long): Boolean = {
    val versions = storage.list(location.folder).flatMap(file => VersionFile.parse(file.name))
    versions.map(_._1).maxOption match {
      case Some(newest) => version >= newest - 1
      case None =>
        throw new MissingVersionException(
          location,
          version,
          storage.describe(VersionFile.path(location, version, None)),
          null
        )
    }
  }

  private def checksum(body: String): Long = Crc32c.of(body.getBytes(UTF_8)) & 0xffffffffL
}
