package keystate.files

import java.io.File
import java.nio.file.{DirectoryNotEmptyException, FileSystemException, Files, Path}
import java.util.UUID

/** Scratch files of one store, in a folder that is made on first use and deleted on close. After
  * that asking for a new one throws IllegalStateException. Any thread may use it.
  */
final class LocalFolder(create: () => File) extends AutoCloseable {
  private var folder: File = _
  private var closed = false

  /** A unique name for a new file. This call does not make the file; the caller deletes it. */
  def newFile(): File = newPath(".sst")

  /** A new folder; the caller deletes it. */
  def newFolder(): File = {
    val made = newPath("")
    Files.createDirectory(made.toPath).toFile
  }

  private def newPath(suffix: String): File = synchronized {
    if (closed) throw new IllegalStateException("the store is closed")
    if (folder == null) folder = create()
    new File(folder, s"${UUID.randomUUID}$suffix")
  }

  override def close(): Unit = synchronized {
    closed = true
    if (folder != null) {
      Option(folder.listFiles).toSeq.flatten.foreach(deleteIfFree)
      deleteIfFree(folder)
      folder = null
    }
  }

  private def deleteIfFree(file: File): Unit =
    try
      Files.deleteIfExists(file.toPath): Unit
    catch {
      // The folder has an abandoned backend, which deletes it once nobody uses the backend.
      case _: DirectoryNotEmptyException =>
    }
}

object LocalFolder {

  /** Gives a file a second name (a hard link). False where that can't be, for instance over two
    * file systems.
    */
  def link(file: Path, name: Path): Boolean =
    try {
      Files.createLink(name, file)
      true
    } catch { case _: UnsupportedOperationException | _: FileSystemException => false }
}
