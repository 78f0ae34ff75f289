package keystate.files

import java.io.{File, InputStream, OutputStream}

/** The file system of a checkpoint. Paths are relative to the operator's folder, separated by `/`.
  * Any thread may call it.
  */
trait CheckpointStorage {

  /** Reads a file from an offset on, in bytes. Throws `java.io.FileNotFoundException` when there is
    * no such file. For a file that is shorter, either this throws or the stream ends at once.
    */
  def open(path: String, offset: Long): InputStream

  /** Reads a file from its beginning. */
  final def open(path: String): InputStream = open(path, 0)

  /** Reads a file of which the length is known, in bytes. A storage may then do without asking for
    * it.
    */
  def open(path: String, offset: Long, length: Long): InputStream = open(path, offset)

  /** Gives a file a local name too, without a copy; what has that name is then the same file and
    * must not be changed. False where that can't be: the caller then copies it.
    */
  def link(path: String, file: File): Boolean

  /** A new file, which appears complete when the stream is closed, or not at all. Its folder is
    * made if need be. An existing file is replaced where the file system can do that, else it
    * stays.
    *
    * @param mustBeNew
    *   whether an existing file stays: this or the close throws
    *   `java.nio.file.FileAlreadyExistsException` then. Where the file system can, that is looked at
    *   as the file is made, whenever that is
    */
  def createAtomic(path: String, mustBeNew: Boolean = false): AtomicOutputStream

  /** The files in a folder, in no order; none when there is no such folder. */
  def list(folder: String): Seq[StoredFile]

  /** The names of the folders in the operator's folder. */
  def folders(): Seq[String]

  /** Whether there is such a file. */
  def exists(path: String): Boolean

  /** Deletes a file. That it is not there is no error. */
  def delete(path: String): Unit

  /** Deletes files, in as few requests as the storage can. */
  def deleteAll(paths: Seq[String]): Unit = paths.foreach(delete)

  /** The full name of a file, for messages. */
  def describe(path: String): String
}

/** Writes a file that appears when this is closed. */
abstract class AtomicOutputStream extends OutputStream {

  /** To be called instead of `close`: no file appears. */
  def cancel(): Unit
}

/** A file in a folder.
  *
  * @param name
  *   without the folder
  * @param modified
  *   in milliseconds since the epoch, by the file system's clock
  */
final case class StoredFile(name: String, modified: Long)

private[keystate] object CheckpointStorage {
  private val Unfinished = """\.([^.]+\.[^.]+)\..+\.tmp""".r

  /** The file that was being written under this name when its writer died: of
    * `.<name>.<anything>.tmp`, as Spark's CheckpointFileManager has it, `<name>`.
    */
  def unfinished(file: String): Option[String] = file match {
    case Unfinished(name) => Some(name)
    case _ => None
  }

  /** Writes a file whole. If `content` or the close throws, no file appears. */
  def write(storage: CheckpointStorage, path: String, mustBeNew: Boolean = false)(
      content: OutputStream => Unit
  ): Unit = {
    val out = storage.createAtomic(path, mustBeNew)
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
