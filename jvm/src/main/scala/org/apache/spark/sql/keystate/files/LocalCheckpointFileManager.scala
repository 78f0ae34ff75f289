package org.apache.spark.sql.keystate.files

import java.io.{BufferedOutputStream, File}
import java.nio.channels.{Channels, FileChannel}
import java.nio.file.StandardCopyOption.{ATOMIC_MOVE, REPLACE_EXISTING}
import java.nio.file.StandardOpenOption.{CREATE_NEW, WRITE}
import java.nio.file.attribute.{FileAttribute, PosixFilePermissions}
import java.nio.file.{
  FileAlreadyExistsException => NioFileAlreadyExistsException, FileSystemException, Files,
  OpenOption, Path => JPath, Paths
}
import java.util.{Set => JSet}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{
  FSDataOutputStream, FileAlreadyExistsException, FileStatus, Path, PathFilter
}

import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager

import keystate.files.LocalFolder

/** Spark's manager for a checkpoint in the local file system, or in one that is mounted there. Only
  * the creation and the renaming of files and folders differ. Without native code Hadoop starts a
  * process to set permissions and two processes for a rename, and each takes tens of milliseconds.
  *
  * Relies on the inherited `createAtomic`: it writes to the result of `createTempFile` and ends
  * with `renameTempFile`.
  *
  * @param disk
  *   syncs files and folders before they count, if the user wants that
  */
private final class LocalCheckpointFileManager(
    path: Path,
    conf: Configuration,
    disk: Option[LocalDisk]
) extends FileContextBasedCheckpointFileManager(path, conf) {
  private val options: JSet[OpenOption] = Set[OpenOption](CREATE_NEW, WRITE).asJava

  private val fileAttributes = attributes(FsPermission.getFileDefault)
  private val folderAttributes = attributes(FsPermission.getDirDefault)

  override def mkdirs(path: Path): Unit = {
    val folder = local(path)
    val above = Iterator.iterate(folder)(_.getParent).takeWhile(_ != null)
    val missing = if (disk.isEmpty) Nil else above.takeWhile(!Files.exists(_)).toSeq
    Files.createDirectories(folder, folderAttributes: _*)
    disk.foreach(disk => missing.foreach(made => disk.syncFolder(made.getParent)))
  }

  /** Listed files must survive a power loss: a writer may have died between a rename and the sync
    * of the folder, and whoever goes on from the file relies on it.
    */
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val found = super.list(path, filter)
    disk.foreach(_.syncFolder(local(path)))
    found
  }

  override def createTempFile(path: Path): FSDataOutputStream = {
    val file = local(path)
    val channel = FileChannel.open(file, options, fileAttributes: _*)
    val out = new BufferedOutputStream(Channels.newOutputStream(channel)) {
      // The first error is thrown, because it shows Spark that a query was only interrupted.
      override def close(): Unit = disk match {
        case None => super.close()
        case Some(disk) =>
          if (channel.isOpen) {
            try {
              flush()
              disk.syncFile(channel, file)
            } catch {
              case e: Throwable =>
                channel.close()
                throw e
            }
            super.close()
          }
      }
    }
    new FSDataOutputStream(out, null)
  }

  override def renameTempFile(source: Path, target: Path, overwriteIfPossible: Boolean): Unit = {
    val file = local(target)
    if (overwriteIfPossible) {
      // The file may have a checksum file of Hadoop's, which would not fit the new content.
      Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
      Files.move(local(source), file, ATOMIC_MOVE, REPLACE_EXISTING)
    } else
      try {
        // Exactly one of two writers succeeds. Checking first whether the file exists could not
        // guarantee that.
        Files.createLink(file, local(source))
        Files.delete(local(source))
      } catch {
        case _: NioFileAlreadyExistsException =>
          Files.delete(local(source)) // Spark does not delete it
          throw new FileAlreadyExistsException(s"$target exists already")
        case _: UnsupportedOperationException | _: FileSystemException if !Files.exists(file) =>
          // The file system has no hard links.
          Files.move(local(source), file, ATOMIC_MOVE)
      }
    disk.foreach(_.syncFolder(file.getParent))
  }

  /** Makes a hard link. False if the checkpoint and the file are not in one file system. */
  def link(path: Path, file: File): Boolean = LocalFolder.link(local(path), file.toPath)

  private def attributes(default: FsPermission): Seq[FileAttribute[_]] =
    if (JPath.of("/").getFileSystem.supportedFileAttributeViews.contains("posix")) {
      val permissions = default.applyUMask(FsPermission.getUMask(conf))
      Seq(PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(s"$permissions")))
    } else Nil

  private def local(path: Path): JPath = Paths.get(path.toUri.getPath)
}
