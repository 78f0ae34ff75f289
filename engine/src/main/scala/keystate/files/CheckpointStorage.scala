package keystate.files

import java.io.{File, InputStream, OutputStream}

/** The file system of a checkpoint. Paths are relative to the operator's folder, separated by `/`.
  * Any thread may call it.
  */
trait CheckpointStorage {

  /** Reads a file from an offset on, in bytes. Throws `java.io.FileNotFoundException` when the file
    * does not exist. For a shorter file, either this throws or the stream ends immediately.
    */
  def open(path: String, offset: Long): InputStream

  /** Reads a file from its beginning. */
  final def open(path: String): InputStream = open(path, 0)

  /** Reads a file with a known length, in bytes. A storage then need not ask for the length. */
  def open(path: String, offset: Long, length: Long): InputStream = open(path, offset)

  /** Adds a local name for a file, without a copy. The two names are then the same file, which must
    * not be changed. False if that is not possible: the caller then copies it.
    */
  def link(path: String, file: File): Boolean

  /** Makes a file, which appears complete when the stream is closed, or not at all. Makes its
    * folder if necessary. Replaces an existing file if the file system can do that; otherwise the
    * existing file stays.
    *
    * @param mustBeNew
    *   whether an existing file stays: this call or the close then throws
    *   `java.nio.file.FileAlreadyExistsException`. If the file system can, it checks this at the
    *   moment when it makes the file
    */
  def createAtomic(path: String, mustBeNew: Boolean = false): AtomicOutputStream

  /** The files in a folder, in no order; none when there is no such folder. */
  def list(folder: String): Seq[StoredFile]

  /** The names of the folders in the operator's folder. */
  def folders(): Seq[String]

  /** Whether the file exists. */
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

  /** Call it instead of `close`: no file appears. */
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
