package org.apache.spark.sql.keystate.files

import java.io.{BufferedOutputStream, File}
import java.nio.channels.Channels
import java.nio.file.StandardCopyOption.{ATOMIC_MOVE, REPLACE_EXISTING}
import java.nio.file.StandardOpenOption.{CREATE_NEW, WRITE}
import java.nio.file.attribute.{FileAttribute, PosixFilePermissions}
import java.nio.file.{
  FileAlreadyExistsException => NioFileAlreadyExistsException,
  FileSystemException,
  Files,
  OpenOption,
  Path => JPath,
  Paths
}
import java.util.{Set => JSet}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException, Path}

import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager

import keystate.files.LocalFolder

/** Spark's manager of a checkpoint in the local file system, or one that is mounted there, but for
  * how files and folders are made and named: without native code Hadoop starts a process to set their
  * permissions and two for a rename, and each takes tens of milliseconds.
  *
  * It relies on the inherited `createAtomic`, which writes what `createTempFile` gives and ends with
  * `renameTempFile`.
  */
private final class LocalCheckpointFileManager(path: Path, conf: Configuration)
    extends FileContextBasedCheckpointFileManager(path, conf) {
  private val options: JSet[OpenOption] = Set[OpenOption](CREATE_NEW, WRITE).asJava

  private val fileAttributes = attributes(FsPermission.getFileDefault)
  private val folderAttributes = attributes(FsPermission.getDirDefault)

  override def mkdirs(path: Path): Unit = {
    Files.createDirectories(local(path), folderAttributes: _*)
    ()
  }

  override def createTempFile(path: Path): FSDataOutputStream = {
    val channel = Files.newByteChannel(local(path), options, fileAttributes: _*)
    new FSDataOutputStream(new BufferedOutputStream(Channels.newOutputStream(channel)), null)
  }

  override def renameTempFile(source: Path, target: Path, overwriteIfPossible: Boolean): Unit = {
    val file = local(target)
    if (overwriteIfPossible) {
      // Hadoop's checksum of a file that this one replaces would not fit it.
      Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
      Files.move(local(source), file, ATOMIC_MOVE, REPLACE_EXISTING)
    } else
      try {
        // Of two writers one succeeds, which asking first whether there is a file can't promise.
        Files.createLink(file, local(source))
        Files.delete(local(source))
      } catch {
        case _: NioFileAlreadyExistsException =>
          Files.delete(local(source)) // Spark leaves it where it is
          throw new FileAlreadyExistsException(s"$target exists already")
        case _: UnsupportedOperationException | _: FileSystemException if !Files.exists(file) =>
          // A file system without hard links.
          Files.move(local(source), file, ATOMIC_MOVE)
      }
    ()
  }

  /** False where the checkpoint and the file are not in one file system. */
  def link(path: Path, file: File): Boolean = LocalFolder.link(local(path), file.toPath)

  private def attributes(default: FsPermission): Seq[FileAttribute[_]] =
    if (JPath.of("/").getFileSystem.supportedFileAttributeViews.contains("posix")) {
      val permissions = default.applyUMask(FsPermission.getUMask(conf))
      Seq(PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(s"$permissions")))
    } else Nil

  private def local(path: Path): JPath = Paths.get(path.toUri.getPath)
}
