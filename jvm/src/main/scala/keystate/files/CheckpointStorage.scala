package keystate.files

import java.io.{File, InputStream, OutputStream}

/** The file system of a checkpoint. Paths are relative to the operator's folder, separated by `/`.
  */
trait CheckpointStorage {

  /** Reads a file from an offset on. Throws `java.io.FileNotFoundException` when there is no such
    * file; that it is shorter shows here or when it is read.
    */
  def open(path: String, offset: Long): InputStream

  final def open(path: String): InputStream = open(path, 0)

  /** Gives a file a local name too, without a copy; it is then the same file and must not be changed.
    * False where that can't be: the caller copies it.
    */
  def link(path: String, file: File): Boolean

  /** A file that appears complete when the stream is closed, or not at all. An existing file is
    * replaced where the file system can do that, else it stays.
    */
  def createAtomic(path: String): AtomicOutputStream

  /** The files in a folder; none when there is no such folder. */
  def list(folder: String): Seq[StoredFile]

  /** The names of the folders in the operator's folder. */
  def folders(): Seq[String]

  def exists(path: String): Boolean

  /** Deleting what is not there is no error. */
  def delete(path: String): Unit

  /** The full name of a file, for messages. */
  def describe(path: String): String
}

abstract class AtomicOutputStream extends OutputStream {

  /** Instead of `close`: leaves no file. */
  def cancel(): Unit
}

final case class StoredFile(name: String, modified: Long)

private[keystate] object CheckpointStorage {

  /** Writes a file whole: what fails leaves no file. */
  def write(storage: CheckpointStorage, path: String)(content: OutputStream => Unit): Unit = {
    val out = storage.createAtomic(path)
    try {
      content(out)
      out.close()
    } catch {
      case e: Throwable =>
        try out.cancel()
        catch { case suppressed: Exception => e.addSuppressed(suppressed) }
        throw e
    }
  }
}
