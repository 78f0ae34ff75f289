package keystate.version

import java.util.UUID
import java.util.concurrent.TimeUnit.MILLISECONDS

import keystate.files.CheckpointStorage

/** Versions of an operator that somebody copies, so that clean-up leaves them alone and what they
  * list.
  *
  * A pin is an empty file `_keystate/pins/<version>-<id>` in the operator's folder. It counts for
  * [[LeaseMillis]] from its time on, by the file system's clock, so one whose writer died keeps
  * nothing for ever. A writer that takes longer writes a new one.
  *
  * Nothing is locked. Clean-up may have looked for pins just before one was written, or a lease may
  * have ended. Then a file of the version is missing, and who copies it fails: a copy has all of its
  * files or is none. That happens only with a version that is older than all which are retained
  * anyway.
  */
object PinnedVersions {

  /** How long a pin counts, in ms. */
  final val LeaseMillis = 15 * 60 * 1000L

  private final val Folder = "_keystate/pins"
  private val Name = """\d{1,18}-[^.]+""".r

  /** The versions that are pinned. Deletes pins whose time is over.
    *
    * @param now
    *   in ms, by the file system's clock
    */
  def held(storage: CheckpointStorage, now: Long): Set[Long] = {
    val pins = storage.list(Folder).filter(file => Name.matches(file.name))
    val (over, held) = pins.partition(now - _.modified > LeaseMillis)
    storage.deleteAll(over.map(file => s"$Folder/${file.name}"))
    held.map(_.name.takeWhile(_ != '-').toLong).toSet
  }

  /** Whether a file of an operator, by its path in the operator's folder, is a pin. */
  def isPin(path: String): Boolean = path.startsWith(s"$Folder/")

  /** Pins a version until this is closed. Any thread may call it. */
  final class Pin(storage: CheckpointStorage, version: Long) extends AutoCloseable {
    private var path = write()
    private var writtenAt = System.nanoTime

    /** To be called again and again while the pin is needed. */
    def renew(): Unit = synchronized {
      if (System.nanoTime - writtenAt > MILLISECONDS.toNanos(LeaseMillis / 3)) {
        val before = path
        path = write()
        writtenAt = System.nanoTime
        storage.delete(before)
      }
    }

    override def close(): Unit = synchronized(storage.delete(path))

    private def write(): String = {
      val path = s"$Folder/$version-${UUID.randomUUID}"
      CheckpointStorage.write(storage, path)(_ => ())
      path
    }
  }
}
