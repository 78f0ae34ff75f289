package org.apache.spark.sql.keystate.files

import java.nio.channels.FileChannel
import java.nio.file.{Files, Path => JPath}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.util.Utils

import keystate.config.Settings

/** What of a local checkpoint is left when power is lost. */
class PowerLossSuite extends AnyFunSuite {

  /** A disk that keeps only what was synced: a file's bytes, and which names a folder has. */
  private final class Forgetful(root: JPath) extends LocalDisk {
    private val bytes = mutable.HashMap.empty[AnyRef, Array[Byte]]
    private val names = mutable.HashMap.empty[AnyRef, Map[String, AnyRef]]

    override def syncFile(channel: FileChannel, file: JPath): Unit =
      bytes(key(file)) = Files.readAllBytes(file)

    override def syncFolder(folder: JPath): Unit = names(key(folder)) = Using.resource(
      Files.list(folder)
    )(_.iterator.asScala.map(file => file.getFileName.toString -> key(file)).toMap)

    /** The bytes of a file after a power loss; None if there is no such file any more. A file whose
      * name was kept without its bytes is empty.
      */
    def left(path: String): Option[String] = {
      val found = path.split('/').foldLeft(Option(key(root))) { (at, name) =>
        at.flatMap(names.get).flatMap(_.get(name))
      }
      found.map(file => new String(bytes.getOrElse(file, Array.emptyByteArray)))
    }

    // A file keeps it under whatever name.
    private def key(file: JPath) = Files
      .readAttributes(file, classOf[java.nio.file.attribute.BasicFileAttributes])
      .fileKey
  }

  private def withFolder(test: JPath => Any): Unit = {
    val root = Files.createTempDirectory("keystate-power")
    try {
      val _ = test(root)
    } finally Utils.deleteRecursively(root.toFile)
  }

  test("a file that was written, once or in the place of another, is there after a power loss") {
    withFolder { root =>
      val disk = new Forgetful(root)
      val folder = new Path(root.toUri)
      val files = new LocalCheckpointFileManager(folder, new Configuration, Some(disk))
      def write(path: String, content: String, replace: Boolean): Unit =
        CheckpointFiles.write(files, new Path(folder, path), replace)(_.write(content.getBytes))

      files.mkdirs(new Path(folder, "state/0/3"))
      for (replace <- Seq(true, false)) {
        write(s"state/0/3/$replace", "first", replace)
        assert(disk.left(s"state/0/3/$replace").contains("first"))
      }
      write("state/0/3/true", "second", replace = true)
      assert(disk.left("state/0/3/true").contains("second"))
      intercept[org.apache.hadoop.fs.FileAlreadyExistsException] {
        write("state/0/3/false", "second", replace = false)
      }
      assert(disk.left("state/0/3/false").contains("first"))
      assert(disk.left("state/0/3/other").isEmpty)
    }
  }

  test("what a folder is seen to have is there, though its writer died before it could sync") {
    withFolder { root =>
      val disk = new Forgetful(root)
      val folder = new Path(root.toUri)
      val files = new LocalCheckpointFileManager(folder, new Configuration, Some(disk))
      files.mkdirs(new Path(folder, "commits"))
      Files.writeString(root.resolve("commits/7"), "entry")
      assert(disk.left("commits/7").isEmpty)
      assert(files.list(new Path(folder, "commits")).map(_.getPath.getName).toSeq == Seq("7"))
      assert(disk.left("commits/7").isDefined)
    }
  }

  test("it is so only if the setting is on") {
    withFolder { root =>
      val folder = new Path(root.toUri)
      def write(sync: String): Unit = {
        val conf = new Configuration
        conf.set(Settings.SyncFiles.key, sync)
        CheckpointFiles.write(CheckpointFiles.create(folder, conf), new Path(folder, sync), true) {
          _.write(sync.getBytes)
        }
      }
      Seq("true", "false").foreach(write)
      assert(Files.readString(root.resolve("true")) == "true")
      intercept[keystate.errors.BadSettingException](write("perhaps"))
    }
  }

  test("a writer that is interrupted fails with that, so that a query can be stopped") {
    for (disk <- Seq(None, Some(LocalDisk))) withFolder { root =>
      val folder = new Path(root.toUri)
      val files = new LocalCheckpointFileManager(folder, new Configuration, disk)
      val out = files.createAtomic(new Path(folder, "file"), overwriteIfPossible = false)
      out.write(1)
      Thread.currentThread.interrupt()
      try {
        val _ = intercept[java.nio.channels.ClosedByInterruptException](out.close())
      } finally {
        val _ = Thread.interrupted()
      }
      out.cancel()
      assert(!Files.exists(root.resolve("file")))
    }
  }
}
