package org.apache.spark.sql.keystate.files

import java.io.{ByteArrayOutputStream, FileNotFoundException, FilterOutputStream, OutputStream}

import org.apache.hadoop.fs._

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** Answers from the [[CheckpointCache]] of the run that owns a checkpoint, and reports writes to
  * it. Without such a run it only calls the manager that it wraps.
  */
private final class CachingCheckpointFileManager(files: CheckpointFileManager)
    extends CheckpointFileManager {
  import CachingCheckpointFileManager._

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CancellableFSDataOutputStream = {
    val out = files.createAtomic(path, overwriteIfPossible)
    CheckpointOwner.cacheOf(path).fold(out)(new NotedStream(path, out, !overwriteIfPossible, _))
  }

  override def open(path: Path): FSDataInputStream =
    reading(path).filter(_.isFile(path)).fold(files.open(path)) { memory =>
      memory.content(path).fold(read(path, memory))(stream)
    }

  private def read(path: Path, memory: CheckpointCache): FSDataInputStream = {
    val before = memory.changes
    val in = files.open(path)
    try {
      val content = in.readNBytes(CheckpointCache.MostOfFile + 1)
      if (content.length > CheckpointCache.MostOfFile) {
        in.seek(0)
        in
      } else {
        in.close()
        memory.read(path, content, before)
        stream(content)
      }
    } catch {
      case e: Throwable =>
        in.close()
        throw e
    }
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] =
    reading(path).filter(_.isFolder(path)).fold(files.list(path, filter)) { memory =>
      listed(path, memory).filter(file => filter.accept(file.getPath)).toArray
    }

  private def listed(folder: Path, memory: CheckpointCache): Seq[FileStatus] =
    memory.listing(folder).getOrElse {
      val before = memory.changes
      val found = files.list(folder).toSeq
      memory.listed(folder, found, before)
      found
    }

  /** Listing a folder also shows whether it exists; usually its files are requested next. */
  override def exists(path: Path): Boolean = reading(path).fold(files.exists(path)) { memory =>
    memory.exists(path).getOrElse {
      if (memory.isFolder(path))
        try listed(path, memory).nonEmpty || files.exists(path)
        catch { case _: FileNotFoundException => false }
      else files.exists(path)
    }
  }

  override def mkdirs(path: Path): Unit = {
    files.mkdirs(path)
    CheckpointOwner.cacheOf(path).foreach(_.made(path))
  }

  override def delete(path: Path): Unit = {
    val memory = CheckpointOwner.cacheOf(path)
    try files.delete(path)
    catch {
      case e: Throwable =>
        memory.foreach(_.forget(path))
        throw e
    }
    memory.foreach(_.deleted(path))
  }

  override def isLocal: Boolean = files.isLocal
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
  override def close(): Unit = files.close()

  private def reading(path: Path): Option[CheckpointCache] =
    CheckpointOwner.cacheOf(path).filter(_.isReader)
}

private object CachingCheckpointFileManager {

  private def stream(content: Array[Byte]) = new FSDataInputStream(new Content(content))

  private final class Content(bytes: Array[Byte]) extends FSInputStream {
    private var at = 0
    override def read(): Int =
      if (at == bytes.length) -1
      else {
        at += 1
        bytes(at - 1) & 0xff
      }
    override def read(into: Array[Byte], offset: Int, length: Int): Int =
      if (at == bytes.length && length > 0) -1
      else {
        val read = math.min(length, bytes.length - at)
        System.arraycopy(bytes, at, into, offset, read)
        at += read
        read
      }
    override def available: Int = bytes.length - at
    override def seek(position: Long): Unit = {
      if (position < 0 || position > bytes.length) throw new java.io.EOFException(s"$position")
      at = position.toInt
    }
    override def getPos: Long = at.toLong
    override def seekToNewSource(position: Long): Boolean = false
  }

  /** Copies the written bytes, if they may be cached. */
  private final class Copy(out: OutputStream) extends FilterOutputStream(out) {
    private val kept = new ByteArrayOutputStream

    def isTooLong: Boolean = kept.size > CheckpointCache.MostOfFile
    def content: Array[Byte] = kept.toByteArray

    override def write(b: Int): Unit = {
      out.write(b)
      if (!isTooLong) kept.write(b)
    }
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      out.write(bytes, offset, length)
      if (!isTooLong) kept.write(bytes, offset, length)
    }
  }

  /** Passes everything on, and keeps a copy. A file that may have replaced another is not kept: the
    * manager could have left the old one.
    */
  private final class NotedStream(
      file: Path,
      out: CancellableFSDataOutputStream,
      isNew: Boolean,
      memory: CheckpointCache,
      copy: Copy
  ) extends CancellableFSDataOutputStream(copy) {
    def this(
        file: Path,
        out: CancellableFSDataOutputStream,
        isNew: Boolean,
        memory: CheckpointCache
    ) =
      this(file, out, isNew, memory, new Copy(out))

    private var ended = false

    override def close(): Unit = synchronized {
      if (!ended) {
        ended = true
        try out.close()
        catch {
          case e: Throwable =>
            memory.forget(file)
            throw e
        }
        if (isNew && !copy.isTooLong) memory.wrote(file, copy.content)
        else {
          memory.forget(file)
          memory.made(file)
        }
      }
    }

    override def cancel(): Unit = synchronized {
      ended = true
      out.cancel()
    }
  }
}
