package org.apache.spark.sql.keystate.files

import java.io.File
import java.nio.file.Files
import java.util.concurrent.{Callable, Executors}

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.util.Utils

import keystate.errors.KeystateException
import keystate.faults.ObjectFileSystem

/** Who has a checkpoint. Other drivers are their files: this one can't be told from another by more. */
class CheckpointOwnerSuite(scheme: String) extends AnyFunSuite {
  def this() = this("file")

  private val conf = {
    val conf = new Configuration
    ObjectFileSystem.settings().foreach { case (key, value) => conf.set(key, value) }
    conf
  }

  private def withCheckpoint(test: (Path, File) => Any): Unit = {
    val folder = Utils.createTempDir(namePrefix = "keystate-owner")
    val root = new Path(s"$scheme:$folder")
    try {
      test(root, new File(folder, "_keystate/owners"))
      ()
    } finally {
      CheckpointOwner.release(root, "this")
      Utils.deleteRecursively(folder)
    }
  }

  private def numbers(owners: File): Set[String] =
    owners.list().filterNot(_.endsWith(".crc")).toSet

  test("whoever had it is fenced off by who takes it, at the next entry of a log") {
    withCheckpoint { (root, owners) =>
      CheckpointOwner.check(root) // nobody has it
      CheckpointOwner.take(root, conf, "this")
      CheckpointOwner.check(root)
      Files.copy(new File(owners, "1").toPath, new File(owners, "2").toPath)
      val e = intercept[KeystateException](CheckpointOwner.checkWrite(new Path(root, "commits/7")))
      assert(e.code == "KEYSTATE_FENCED")
      assert(e.getMessage.contains(s"process ${ProcessHandle.current.pid}"))
      intercept[KeystateException](CheckpointOwner.checkWrite(new Path(root, "offsets/7")))
      intercept[KeystateException](CheckpointOwner.checkWrite(new Path(root, "sources/0/7")))
      // It takes it back.
      CheckpointOwner.take(root, conf, "this")
      assert(numbers(owners) == Set("1", "2", "3"))
      CheckpointOwner.checkWrite(new Path(root, "commits/7"))
    }
  }

  test("a look at the beginning of a batch counts for a short time, and not for its end") {
    withCheckpoint { (root, owners) =>
      CheckpointOwner.take(root, conf, "this")
      CheckpointOwner.checkWrite(new Path(root, "sources/0/7"))
      val looked = System.nanoTime
      Files.copy(new File(owners, "1").toPath, new File(owners, "2").toPath)
      intercept[KeystateException](CheckpointOwner.checkWrite(new Path(root, "commits/7")))
      intercept[KeystateException](CheckpointOwner.checkWrite(new Path(root, "sources/1/7")))
      val begun = Seq(
        Try(CheckpointOwner.checkWrite(new Path(root, "offsets/7"))),
        Try(CheckpointOwner.checkBegin(root))
      )
      assert(begun.forall(_.isSuccess) || System.nanoTime - looked > 200000000L)
      Thread.sleep(200)
      intercept[KeystateException](CheckpointOwner.checkWrite(new Path(root, "offsets/7")))
      intercept[KeystateException](CheckpointOwner.checkBegin(root))
    }
  }

  test("of many that come at once each has a number of its own") {
    withCheckpoint { (root, owners) =>
      val threads = Executors.newFixedThreadPool(8)
      val all = (1 to 40).map(_ => (() => CheckpointOwner.take(root, conf, "this")): Callable[Unit])
      try threads.invokeAll(all.asJava).forEach(_.get)
      finally threads.shutdown()
      assert(numbers(owners) == (1 to 40).map(_.toString).toSet)
    }
  }

  test("old ones go") {
    withCheckpoint { (root, owners) =>
      (1 to 130).foreach(_ => CheckpointOwner.take(root, conf, "this"))
      assert(numbers(owners) == (31 to 130).map(_.toString).toSet)
    }
  }

  test("a failure is kept until the run ends") {
    withCheckpoint { (root, _) =>
      CheckpointOwner.fail(root, "this", new IllegalStateException("why"))
      // That an earlier run has ended may be heard of late.
      CheckpointOwner.release(root, "earlier")
      assert(intercept[IllegalStateException](CheckpointOwner.check(root)).getMessage == "why")
      CheckpointOwner.release(root, "this")
      CheckpointOwner.check(root)
    }
  }

  test("another process of this machine has it while it lives and its run has not ended") {
    withCheckpoint { (root, owners) =>
      CheckpointOwner.take(root, conf, "this")
      assert(CheckpointOwner.aliveElsewhere(root, conf).isEmpty, "it is this process")
      val other = new ProcessBuilder("sleep", "60").start()
      try {
        val own = Files.readString(new File(owners, "1").toPath)
        val start = ProcessHandle.current.info.startInstant.get.toEpochMilli
        def claim(number: Int, started: Long): Unit = {
          val record = own
            .replace(s":${ProcessHandle.current.pid},", s":${other.pid},")
            .replace(s":$start,", s":$started,")
          assert(record != own)
          Files.writeString(new File(owners, s"$number").toPath, record)
          ()
        }
        val started = other.info.startInstant.get.toEpochMilli
        claim(2, started)
        assert(CheckpointOwner.aliveElsewhere(root, conf).exists(_.contains(s"${other.pid}")))
        Files.createFile(new File(owners, "2.ended").toPath)
        assert(CheckpointOwner.aliveElsewhere(root, conf).isEmpty, "its run has ended")
        claim(3, started - 5000)
        assert(CheckpointOwner.aliveElsewhere(root, conf).isEmpty, "its number was given again")
        claim(4, started)
        assert(CheckpointOwner.aliveElsewhere(root, conf).nonEmpty)
      } finally {
        other.destroyForcibly().waitFor()
        ()
      }
      assert(CheckpointOwner.aliveElsewhere(root, conf).isEmpty, "it is dead")
    }
  }
}

class ObjectCheckpointOwnerSuite extends CheckpointOwnerSuite(ObjectFileSystem.Scheme)
