package keystate.version

import java.util.UUID
import java.util.concurrent.TimeUnit.MILLISECONDS

import keystate.files.{CheckpointStorage, StoreLocation, StoredFile}

/** Versions of a store that are being copied, so that clean-up keeps them and the files that they
  * list.
  *
  * A pin is an empty file `<version>-<id>.pin` among the store's files. It counts for
  * [[LeaseMillis]] from its time on, by the file system's clock, so a dead writer's pin keeps
  * nothing for ever. A writer that needs longer writes a new pin.
  *
  * There is no lock. Clean-up may have listed the files just before a pin was written, or a lease
  * may have ended. Then a file of the version is missing, and the copy fails: a copy has all of its
  * files or does not exist. That happens only with a version that is older than all retained
  * versions.
  */
object PinnedVersions {

  /** How long a pin counts, in ms. */
  final val LeaseMillis = 15 * 60 * 1000L

  private val Name = """(\d{1,18})-[^.]+\.pin""".r

  /** The version that a file of this name pins. */
  def parse(name: String): Option[Long] = name match {
    case Name(version) => Some(version.toLong)
    case _ => None
  }

  /** The versions that are pinned by a store's files, and the pins whose time is over.
    *
    * @param now
    *   in ms, by the file system's clock
    */
  def among(files: Seq[StoredFile], now: Long): (Set[Long], Seq[StoredFile]) = {
    val pins = files.flatMap(file => parse(file.name).map(_ -> file))
    val (counting, over) = pins.partition { case (_, pin) => now - pin.modified <= LeaseMillis }
    (counting.map(_._1).toSet, over.map(_._2))
  }

  /** Pins a version until this is closed. Any thread may call it.
    *
    * @param nanos
    *   the time, as `System.nanoTime` has it
    */
  final class Pin(
      storage: CheckpointStorage,
      location: StoreLocation,
      version: Long,
      nanos: () => Long = () => System.nanoTime
  ) extends AutoCloseable {
    private var path = write()
    private var writtenAt = nanos()

    /** Call it repeatedly while the pin is needed. */
    def renew(): Unit = synchronized {
      if (nanos() - writtenAt > MILLISECONDS.toNanos(LeaseMillis / 3)) {
        val before = path
        path = write()
        writtenAt = nanos()
        storage.delete(before)
      }
    }

    override def close(): Unit = synchronized(storage.delete(path))

    private def write(): String = {
      val path = s"${location.folder}/$version-${UUID.randomUUID}.pin"
      CheckpointStorage.write(storage, path)(_ => ())
      path
    }
  }
}
