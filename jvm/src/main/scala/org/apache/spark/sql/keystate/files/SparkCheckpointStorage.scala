package org.apache.spark.sql.keystate.files

import java.io.{File, FileNotFoundException, InputStream}
import java.nio.file.{FileAlreadyExistsException, NoSuchFileException}
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  FSDataInputStream, FileAlreadyExistsException => HadoopAlreadyExistsException, Path
}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

import keystate.files.{AtomicOutputStream, CheckpointStorage, StoredFile}
import keystate.version.SharedPath

/** The checkpoint's files through Spark's `CheckpointFileManager`. Relies on it to make a file
  * appear atomically in each kind of file system. Users can replace the manager by a setting.
  *
  * Files that the state shares with another checkpoint are read there ([[SharedPath]]), and never
  * written.
  */
private[keystate] final class SparkCheckpointStorage(operatorFolder: Path, conf: Configuration)
    extends CheckpointStorage {
  private lazy val files = CheckpointFiles.create(operatorFolder, conf)
  private val others = new ConcurrentHashMap[(String, Long), SparkCheckpointStorage]

  override def open(path: String, offset: Long): InputStream = shared(path) match {
    case Some((other, there)) => other.open(there, offset)
    case None => from(offset, files.open(resolve(path)))
  }

  override def open(path: String, offset: Long, length: Long): InputStream = shared(path) match {
    case Some((other, there)) => other.open(there, offset, length)
    case None => openOwn(path, offset, length)
  }

  /** The storage of another checkpoint that has the file, and the file's path there. */
  private def shared(path: String): Option[(SparkCheckpointStorage, String)] =
    Option.when(SharedPath.isShared(path)) {
      val of = SharedPath.parse(path).getOrElse(throw new FileNotFoundException(path))
      val other = others.computeIfAbsent(
        (of.base, of.operator),
        _ => {
          val checkpoint = operatorFolder.getParent.getParent
          val base = CheckpointBases.read(checkpoint, of.base, conf)
          new SparkCheckpointStorage(new Path(base.checkpoint, s"state/${of.operator}"), conf)
        }
      )
      (other, of.path)
    }

  private def openOwn(path: String, offset: Long, length: Long): InputStream = files match {
    case objects: ObjectCheckpointFileManager => from(offset, objects.open(resolve(path), length))
    case _ => from(offset, files.open(resolve(path)))
  }

  private def from(offset: Long, in: FSDataInputStream): InputStream = {
    try if (offset > 0) in.seek(offset)
    catch {
      case e: Throwable =>
        in.close()
        throw e
    }
    in
  }

  override def link(path: String, file: File): Boolean = (shared(path), files) match {
    case (Some((other, there)), _) => other.link(there, file)
    case (None, local: LocalCheckpointFileManager) => local.link(resolve(path), file)
    case _ => false
  }

  override def createAtomic(path: String, mustBeNew: Boolean): AtomicOutputStream = {
    val out = orSay(path)(create(resolve(path), mustBeNew))
    new AtomicOutputStream {
      override def write(b: Int): Unit = out.write(b)
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
        out.write(bytes, offset, length)
      override def flush(): Unit = out.flush()
      override def close(): Unit = orSay(path)(out.close())
      override def cancel(): Unit = (out: CancellableFSDataOutputStream).cancel()
    }
  }

  private def orSay[T](path: String)(body: => T): T =
    try body
    catch {
      case e: HadoopAlreadyExistsException =>
        val known = new FileAlreadyExistsException(describe(path))
        known.initCause(e)
        throw known
    }

  /** The folder is there as a rule, so it is not looked for. */
  private def create(file: Path, mustBeNew: Boolean): CancellableFSDataOutputStream =
    try files.createAtomic(file, overwriteIfPossible = !mustBeNew)
    catch {
      case _: FileNotFoundException | _: NoSuchFileException =>
        files.mkdirs(file.getParent)
        files.createAtomic(file, overwriteIfPossible = !mustBeNew)
    }

  override def list(folder: String): Seq[StoredFile] =
    try
      files.list(resolve(folder)).toSeq.filter(_.isFile).map { status =>
        StoredFile(status.getPath.getName, status.getModificationTime)
      }
    catch { case _: FileNotFoundException => Nil }

  override def folders(): Seq[String] =
    try files.list(operatorFolder).toSeq.filter(_.isDirectory).map(_.getPath.getName)
    catch { case _: FileNotFoundException => Nil }

  override def exists(path: String): Boolean =
    shared(path).fold(files.exists(resolve(path))) { case (other, there) => other.exists(there) }

  override def delete(path: String): Unit = files.delete(resolve(path))

  override def deleteAll(paths: Seq[String]): Unit = files match {
    case objects: ObjectCheckpointFileManager =>
      objects.deleteAll(operatorFolder, paths.map(resolve))
    case _ => paths.foreach(delete)
  }

  override def describe(path: String): String =
    try file(path).toString
    catch { case NonFatal(_) => s"$operatorFolder/$path" }

  /** The path of a file. Throws FileNotFoundException if the checkpoint does not know the other one
    * that has the file.
    */
  def file(path: String): Path =
    shared(path).fold(resolve(path)) { case (other, there) => other.file(there) }

  private def resolve(path: String): Path = {
    require(!SharedPath.isShared(path), s"$path is another checkpoint's")
    new Path(operatorFolder, path)
  }
}
