package keystate.checkpoint

import java.io.{
  ByteArrayInputStream, ByteArrayOutputStream, EOFException, File, FileNotFoundException,
  InputStream
}
import java.nio.file.FileAlreadyExistsException
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import keystate.files.{AtomicOutputStream, CheckpointStorage, StoredFile}

/** A file system in memory that can be told to fail. Its clock is the number of files written. */
final class MemoryStorage extends CheckpointStorage {
  private final class Stored(val content: Array[Byte], val modified: Long)

  private val files = mutable.TreeMap.empty[String, Stored]
  private var clock = 0L

  /** Called with each operation and path; it throws to make the operation fail. */
  @volatile var before: (String, String) => Unit = (_, _) => ()

  def paths: Seq[String] = synchronized(files.keys.toSeq)
  def runs: Seq[String] = paths.filter(isRun)
  def isRun(path: String): Boolean = RunFiles.versionOf(path.split('/').last).isDefined
  def apply(path: String): Array[Byte] = synchronized(files(path).content)
  def update(path: String, content: Array[Byte]): Unit = synchronized {
    clock += 1
    files(path) = new Stored(content, clock)
  }

  /** Lets time go by. */
  def pass(millis: Long): Unit = synchronized(clock += millis)

  /** Changes a file as a broken disk would. */
  def damage(path: String)(change: Array[Byte] => Array[Byte]): Unit = synchronized {
    files(path) = new Stored(change(files(path).content.clone), files(path).modified)
  }

  /** How many bytes of run files were read. */
  val runBytesRead = new AtomicLong

  override def open(path: String, offset: Long): InputStream = {
    before("open", path)
    val file = synchronized(files.getOrElse(path, throw new FileNotFoundException(path)))
    if (offset > file.content.length) throw new EOFException(s"$path ends before $offset")
    val at = offset.toInt
    new ByteArrayInputStream(file.content, at, file.content.length - at) {
      override def read(bytes: Array[Byte], offset: Int, length: Int): Int = {
        val count = super.read(bytes, offset, length)
        if (isRun(path) && count > 0) runBytesRead.addAndGet(count.toLong)
        count
      }
    }
  }

  override def link(path: String, file: File): Boolean = false

  override def createAtomic(path: String, mustBeNew: Boolean): AtomicOutputStream = {
    before("create", path)
    new AtomicOutputStream {
      private val buffer = new ByteArrayOutputStream
      private var ended = false
      override def write(b: Int): Unit = buffer.write(b)
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
        before("write", path)
        buffer.write(bytes, offset, length)
      }
      override def close(): Unit = if (!ended) {
        ended = true
        before("close", path)
        if (mustBeNew && exists(path)) throw new FileAlreadyExistsException(path)
        MemoryStorage.this(path) = buffer.toByteArray
        before("closed", path)
      }
      override def cancel(): Unit = ended = true
    }
  }

  override def list(folder: String): Seq[StoredFile] = {
    before("list", folder)
    val prefix = if (folder == ".") "" else s"$folder/"
    synchronized {
      files.toSeq.collect {
        case (path, file) if path.startsWith(prefix) && !path.drop(prefix.length).contains('/') =>
          StoredFile(path.drop(prefix.length), file.modified)
      }
    }
  }

  override def folders(): Seq[String] = synchronized {
    files.keys.collect { case s"$folder/$_" => folder }.toSeq.distinct
  }

  override def exists(path: String): Boolean = synchronized(files.contains(path))

  override def delete(path: String): Unit = {
    before("delete", path)
    synchronized {
      files.remove(path)
      ()
    }
  }

  override def describe(path: String): String = s"memory:/$path"
}
