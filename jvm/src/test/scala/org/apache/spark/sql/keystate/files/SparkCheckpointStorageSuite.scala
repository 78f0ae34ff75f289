package org.apache.spark.sql.keystate.files

import java.io.FileNotFoundException
import java.net.URI
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._
import scala.concurrent.{Await, Future}
import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  AbstractFileSystem, FileAlreadyExistsException, FilterFs, LocalFileSystem, Path
}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

import keystate.faults.{ObjectFileSystem, Requests}
import keystate.files.CheckpointStorage
import org.apache.spark.sql.keystate.KeystateCheckpointFileManager

/** What a store asks of the checkpoint's files, on the roads to them. */
class SparkCheckpointStorageSuite extends AnyFunSuite {
  private def plain = new Configuration

  private def withManager = {
    val conf = new Configuration
    conf.set(
      SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key,
      classOf[FileSystemBasedCheckpointFileManager].getName
    )
    // PySpark's jars have Hive's file system for local files, which does not rename to a file that is
    // there. RescaleFaultSuite has what becomes of that.
    conf.set("fs.file.impl", classOf[LocalFileSystem].getName)
    conf.setBoolean("fs.file.impl.disable.cache", true)
    conf
  }

  test("a local folder is managed quickly; a manager that was asked for is used") {
    val folder = new Path("file:/checkpoint/state/0")
    def managed(conf: Configuration) = CheckpointFiles.create(folder, conf).getClass
    assert(managed(plain) == classOf[LocalCheckpointFileManager])
    assert(managed(withManager) == classOf[FileSystemBasedCheckpointFileManager])
    val other = plain
    other.set("fs.AbstractFileSystem.file.impl", classOf[OtherFileSystem].getName)
    assert(managed(other) == classOf[FileContextBasedCheckpointFileManager])
    val stored = new Path("objects:/checkpoint/state/0")
    assert(CheckpointFiles.create(stored, objects).isInstanceOf[ObjectCheckpointFileManager])
    val renaming = objects
    renaming.set(ObjectFileSystem.Rename, "true")
    assert(
      CheckpointFiles.create(stored, renaming).isInstanceOf[FileSystemBasedCheckpointFileManager]
    )
    val chosen = objects
    val setting = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key
    chosen.set(setting, withManager.get(setting))
    assert(
      CheckpointFiles.create(stored, chosen).isInstanceOf[FileSystemBasedCheckpointFileManager]
    )
  }

  private def objects = {
    val conf = plain
    ObjectFileSystem.settings().foreach { case (key, value) => conf.set(key, value) }
    conf
  }

  for ((scheme, before) <- Seq("file" -> plain, "objects" -> objects))
    test(s"Spark's logs by the setting, $scheme") {
      val root = Files.createTempDirectory("keystate-storage")
      val conf = before
      conf.set(
        SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key,
        classOf[KeystateCheckpointFileManager].getName
      )
      try {
        val folder = new Path(s"$scheme:$root")
        val files = CheckpointFileManager.create(folder, conf)
        def write(content: String): Unit = {
          val out = files.createAtomic(new Path(folder, "0"), overwriteIfPossible = false)
          out.write(content.getBytes)
          out.close()
        }
        write("first")
        intercept[FileAlreadyExistsException](write("second"))
        assert(Files.readString(root.resolve("0")) == "first")
        // Of many writers at once one succeeds.
        val attempts = (0 until 200).flatMap { i =>
          val outs = Seq.fill(2)(files.createAtomic(new Path(folder, s"many$i"), false))
          val done = outs.map(out => Future(Try(out.close()).isSuccess))
          done.map(Await.result(_, 10.seconds))
        }
        assert(attempts.count(identity) == 200)
      } finally Utils.deleteRecursively(root.toFile)
    }

  for {
    (road, conf, scheme) <- Seq(
      ("local", plain, "file"),
      ("CheckpointFileManager", withManager, "file"),
      ("object store", objects, "objects")
    )
  } {
    def storageTest(name: String)(body: (CheckpointStorage, java.nio.file.Path) => Any): Unit =
      test(s"$road: $name") {
        val root = Files.createTempDirectory("keystate-storage")
        try body(new SparkCheckpointStorage(new Path(s"$scheme:$root"), conf), root)
        finally Utils.deleteRecursively(root.toFile)
      }

    def write(storage: CheckpointStorage, path: String, content: String): Unit = {
      val out = storage.createAtomic(path)
      out.write(content.getBytes)
      out.close()
    }

    def read(storage: CheckpointStorage, path: String): String = {
      val in = storage.open(path)
      try new String(in.readAllBytes())
      finally in.close()
    }

    storageTest("a file is there when it is closed, in a folder that is made for it") {
      (storage, _) =>
        val out = storage.createAtomic("0/1.keystate")
        out.write("state".getBytes)
        assert(!storage.exists("0/1.keystate"))
        out.close()
        assert(storage.exists("0/1.keystate"))
        assert(read(storage, "0/1.keystate") == "state")
    }

    storageTest("a file replaces another, also one that Hadoop wrote") { (storage, root) =>
      val folder = new Path(s"$scheme:$root")
      val fileSystem = folder.getFileSystem(conf)
      val hadoop = fileSystem.create(new Path(folder, "0/1.keystate"))
      hadoop.write("old".getBytes)
      hadoop.close()
      write(storage, "0/1.keystate", "new")
      assert(read(storage, "0/1.keystate") == "new")
      val again = fileSystem.open(new Path(folder, "0/1.keystate"))
      try assert(new String(again.readAllBytes()) == "new")
      finally again.close()
    }

    storageTest("a file is read from an offset on, also one that Hadoop wrote") { (storage, root) =>
      val content = (0 until 5000).map(i => (i % 101).toByte)
      write(storage, "0/1-a.lz4", new String(content.toArray))
      val folder = new Path(root.toUri)
      val hadoop = folder.getFileSystem(plain).create(new Path(folder, "0/2-a.lz4"))
      hadoop.write(content.toArray)
      hadoop.close()
      for (path <- Seq("0/1-a.lz4", "0/2-a.lz4"); offset <- Seq(0, 1, 511, 512, 4999, 5000)) {
        val in = storage.open(path, offset.toLong)
        try assert(in.readNBytes(700).toSeq == content.slice(offset, offset + 700))
        finally in.close()
      }
      def pastTheEnd(): Array[Byte] = {
        val in = storage.open("0/2-a.lz4", 6000)
        try in.readNBytes(1)
        finally in.close()
      }
      assert(Try(pastTheEnd()).getOrElse(Array.empty[Byte]).isEmpty)
      intercept[FileNotFoundException](storage.open("0/3-a.lz4", 1000))
    }

    storageTest("a file that must be new leaves one that is there") { (storage, _) =>
      def writeNew(content: String): Unit = {
        val out = storage.createAtomic("0/1.keystate", mustBeNew = true)
        try {
          out.write(content.getBytes)
          out.close()
        } finally out.cancel()
      }
      writeNew("first")
      intercept[java.nio.file.FileAlreadyExistsException](writeNew("second"))
      assert(read(storage, "0/1.keystate") == "first")
      // Spark's manager leaves its temporary file, which clean-up knows.
      assert(storage.list("0").map(_.name).filterNot(_.startsWith(".")) == Seq("1.keystate"))
      storage.delete("0/1.keystate")
      writeNew("third")
      assert(read(storage, "0/1.keystate") == "third")
    }

    storageTest("a cancelled file leaves nothing") { (storage, root) =>
      write(storage, "0/1.keystate", "kept")
      val out = storage.createAtomic("0/1.keystate")
      out.write("lost".getBytes)
      out.cancel()
      assert(read(storage, "0/1.keystate") == "kept")
      assert(storage.list("0").map(_.name) == Seq("1.keystate"))
    }

    storageTest("files are listed with their times, and folders and checksums are not") {
      (storage, root) =>
        val before = System.currentTimeMillis - 1000
        write(storage, "0/1.keystate", "a")
        write(storage, "0/2.keystate", "b")
        write(storage, "0/more/3.keystate", "c")
        val files = storage.list("0")
        assert(files.map(_.name).toSet == Set("1.keystate", "2.keystate"))
        assert(files.forall(_.modified >= before))
        assert(storage.list("none").isEmpty)
    }

    storageTest("many files are deleted at once, those that are not there too") { (storage, _) =>
      val files = (0 until 600).map(i => s"0/$i-a.lz4")
      files.take(500).foreach(write(storage, _, "a"))
      write(storage, "0/1.keystate", "kept")
      Requests.clear()
      storage.deleteAll(files)
      if (scheme == "objects") assert(Requests.counts() == Map("DELETE" -> 3))
      assert(storage.list("0").map(_.name) == Seq("1.keystate"))
    }

    storageTest("what is not there") { (storage, root) =>
      val e = intercept[FileNotFoundException](storage.open("0/1.keystate"))
      assert(e.getMessage.contains(s"$root/0/1.keystate"))
      storage.delete("0/1.keystate")
      assert(!storage.exists("0/1.keystate"))
      write(storage, "0/1.keystate", "a")
      storage.delete("0/1.keystate")
      assert(!storage.exists("0/1.keystate"))
    }
  }

  test("a file of a local folder gets a second name, that of another manager is to be copied") {
    val root = Files.createTempDirectory("keystate-storage")
    try {
      val name = root.resolve("name").toFile
      def storage(conf: Configuration) = new SparkCheckpointStorage(new Path(root.toUri), conf)
      assert(!storage(plain).link("0/1.keystate", name))
      val out = storage(plain).createAtomic("0/1.keystate")
      out.write("a".getBytes)
      out.close()
      assert(!storage(withManager).link("0/1.keystate", name) && !name.exists)
      assert(storage(plain).link("0/1.keystate", name))
      assert(Files.isSameFile(name.toPath, root.resolve("0/1.keystate")))
      storage(plain).delete("0/1.keystate")
      assert(Files.readString(name.toPath) == "a")
      // Where no link can be made, for instance because the name is taken.
      storage(plain).createAtomic("0/2.keystate").close()
      assert(!storage(plain).link("0/2.keystate", name))
    } finally Utils.deleteRecursively(root.toFile)
  }

  test("local: files and folders have the permissions that Hadoop's umask leaves") {
    val root = Files.createTempDirectory("keystate-storage")
    val strict = plain
    strict.set("fs.permissions.umask-mode", "077")
    try {
      val storage = new SparkCheckpointStorage(new Path(root.toUri), strict)
      storage.createAtomic("0/default/1.keystate").close()
      def permissions(path: String) =
        PosixFilePermissions.toString(Files.getPosixFilePermissions(root.resolve(path)))
      assert(permissions("0/default/1.keystate") == "rw-------")
      assert(permissions("0/default") == "rwx------" && permissions("0") == "rwx------")
    } finally Utils.deleteRecursively(root.toFile)
  }

  // So it is no loss that Keystate's manager writes no `.crc` files, see docs/failures.md.
  test("a flipped bit in a log is not noticed by Spark's own manager of local disks either") {
    val folder = Files.createTempDirectory("keystate-crc")
    val file = folder.resolve("0")
    try {
      val managers = Seq(
        new FileContextBasedCheckpointFileManager(new Path(folder.toUri), plain),
        new KeystateCheckpointFileManager(new Path(folder.toUri), plain)
      )
      managers.foreach { manager =>
        val path = new Path(file.toUri)
        CheckpointFiles.write(manager, path, overwriteIfPossible = true)(
          _.write("offset 4".getBytes)
        )
        Files.write(file, "offset 5".getBytes)
        val in = manager.open(path)
        try assert(new String(in.readAllBytes()) == "offset 5")
        finally in.close()
      }
    } finally Utils.deleteRecursively(folder.toFile)
  }
}

class OtherFileSystem(uri: URI, conf: Configuration)
    extends FilterFs(AbstractFileSystem.createFileSystem(uri, new Configuration))
