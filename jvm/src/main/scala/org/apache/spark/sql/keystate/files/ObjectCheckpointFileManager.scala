package org.apache.spark.sql.keystate.files

import java.io.{FileNotFoundException, IOException, OutputStream}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Options.CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE
import org.apache.hadoop.fs.Options.OpenFileOptions._
import org.apache.hadoop.fs._
import org.apache.hadoop.util.functional.FutureIO

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** Manages a checkpoint in an object store: one where a file appears as a whole when its stream is
  * closed, and does not appear if the stream is aborted. So one request writes a file, nothing is
  * renamed, and folders need not be made.
  *
  * Relies on a file system declaring `Abortable`, and `fs.option.create.conditional.overwrite`: the
  * store then makes a file only if there is none, which it checks in the same step. Without that
  * ability this class checks just before.
  */
private final class ObjectCheckpointFileManager(path: Path, fs: FileSystem)
    extends CheckpointFileManager {
  import ObjectCheckpointFileManager._

  private lazy val isConditional =
    fs.hasPathCapability(path, FS_OPTION_CREATE_CONDITIONAL_OVERWRITE)

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CancellableFSDataOutputStream = {
    val builder: FSDataOutputStreamBuilder[_, _] = fs.createFile(path)
    builder.overwrite(true)
    builder.recursive()
    builder.opt(NoProbes, true)
    if (!overwriteIfPossible && isConditional)
      builder.must(FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true)
    new ObjectStream(path, builder.build().asInstanceOf[FSDataOutputStream], !overwriteIfPossible)
  }

  override def open(path: Path): FSDataInputStream = fs.open(path)

  /** Opens a file with a known length, so that the store need not look it up. */
  def open(path: Path, length: Long): FSDataInputStream = {
    val builder = fs.openFile(path)
    builder.optLong(FS_OPTION_OPENFILE_LENGTH, length)
    builder.opt(FS_OPTION_OPENFILE_READ_POLICY, FS_OPTION_OPENFILE_READ_POLICY_SEQUENTIAL)
    FutureIO.awaitFuture(builder.build())
  }

  /** There are no folders, so a folder that was never written to is empty. */
  override def list(path: Path, filter: PathFilter): Array[FileStatus] =
    try fs.listStatus(path, filter)
    catch { case _: FileNotFoundException => Array.empty }

  override def mkdirs(path: Path): Unit = ()

  override def exists(path: Path): Boolean = fs.exists(path)

  override def delete(path: Path): Unit =
    try
      fs.delete(path, true): Unit
    catch { case _: FileNotFoundException => }

  /** Deletes files below a folder, many with one request. */
  def deleteAll(folder: Path, files: Seq[Path]): Unit = if (files.nonEmpty) {
    val bulk = fs.createBulkDelete(fs.makeQualified(folder))
    try
      files.map(fs.makeQualified(_)).grouped(bulk.pageSize).foreach { page =>
        bulk.bulkDelete(page.asJava).asScala.headOption.foreach { failed =>
          throw new IOException(s"${failed.getKey} could not be deleted: ${failed.getValue}")
        }
      }
    finally bulk.close()
  }

  override def isLocal: Boolean = false

  override def createCheckpointDirectory(): Path = fs.makeQualified(path)

  private final class ObjectStream(file: Path, out: FSDataOutputStream, mustBeNew: Boolean)
      extends CancellableFSDataOutputStream(out: OutputStream) {
    private var ended = false

    override def close(): Unit = synchronized {
      if (!ended) {
        ended = true
        if (mustBeNew && !isConditional && fs.exists(file)) {
          out.abort()
          throw exists(null)
        }
        try out.close()
        // Stores refuse in different ways. If the store made the file and its answer was lost, this
        // is no success either: the writer can't distinguish its own file from another's.
        catch { case e: IOException if mustBeNew && isThere => throw exists(e) }
      }
    }

    override def cancel(): Unit = synchronized {
      if (!ended) {
        ended = true
        out.abort(): Unit
      }
    }

    private def exists(cause: Throwable) = {
      val e = new FileAlreadyExistsException(s"$file exists already")
      e.initCause(cause)
      e
    }

    private def isThere =
      try fs.exists(file)
      catch { case NonFatal(_) => false }
  }
}

private object ObjectCheckpointFileManager {

  /** Makes s3a skip the check whether there is a file or a folder of that name. Others ignore it.
    */
  private final val NoProbes = "fs.s3a.create.performance"

  /** A manager for a folder. None if its file system has not what one needs. */
  def of(folder: Path, conf: Configuration): Option[ObjectCheckpointFileManager] =
    try {
      val fs = folder.getFileSystem(conf)
      Option.when(fs.hasPathCapability(folder, CommonPathCapabilities.ABORTABLE_STREAM)) {
        new ObjectCheckpointFileManager(folder, fs)
      }
    } catch { case _: UnsupportedFileSystemException => None }
}
