package keystate.files

import java.io.File
import java.nio.file.Files
import java.nio.file.attribute.{BasicFileAttributes, FileTime}
import java.util

/** The CRC32C of local files that this process has written or read, so that it need not read them
  * again. A file is identified by its number on its disk, which all of its names (hard links)
  * share. A checksum counts as long as the file's length and modification time stay the same. So
  * this class does not notice a disk that loses data: use it for files whose readers check each
  * part that they use.
  *
  * Any thread may use it.
  */
private[keystate] object CheckedFiles {

  /** Reading fewer bytes takes no time. */
  private final val LeastBytes = 1L << 20

  /** A few MB of memory. */
  private final val Most = 16 * 1024

  private final case class State(length: Long, modified: FileTime)
  private final case class Known(state: State, crc32c: Int)

  // By the operating system's file key, the last used file at the end.
  private val files = new util.LinkedHashMap[AnyRef, Known](16, 0.75f, true) {
    override def removeEldestEntry(eldest: util.Map.Entry[AnyRef, Known]): Boolean = size > Most
  }

  /** Whether files of this length are recorded. */
  def keeps(length: Long): Boolean = length >= LeastBytes

  /** The checksum as it is known, or else as it is read now. */
  def crc32c(file: File)(read: => Int): Int = {
    val (key, state) = look(file)
    val known = files.synchronized(Option(files.get(key)))
    known
      .filter(_.state == state)
      .fold {
        val crc32c = read
        remember(key, state, crc32c)
        crc32c
      }(_.crc32c)
  }

  /** Records a file that was just written. */
  def written(file: File, crc32c: Int): Unit = {
    val (key, state) = look(file)
    remember(key, state, crc32c)
  }

  private def look(file: File): (AnyRef, State) = {
    val attributes = Files.readAttributes(file.toPath, classOf[BasicFileAttributes])
    (attributes.fileKey, State(attributes.size, attributes.lastModifiedTime))
  }

  // There is no key where the operating system has none.
  private def remember(key: AnyRef, state: State, crc32c: Int): Unit =
    if (key != null && keeps(state.length)) files.synchronized {
      files.put(key, Known(state, crc32c)): Unit
    }
}
