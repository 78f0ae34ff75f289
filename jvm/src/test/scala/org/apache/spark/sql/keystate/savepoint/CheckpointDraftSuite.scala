package org.apache.spark.sql.keystate.savepoint

import java.nio.file.{Files, Path => LocalPath}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.{KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint

/** Where checkpoints are written before they have their place. */
class CheckpointDraftSuite extends AnyFunSuite {
  private val conf = new Configuration

  private def names(folder: LocalPath): Seq[String] =
    Files.list(folder).toList.asScala.map(_.getFileName.toString).toSeq.sorted

  test("of two copies to one place the first that is done stays, and the other one fails") {
    val folder = Files.createTempDirectory("keystate-draft")
    val original = Files.createDirectories(folder.resolve("original/commits")).getParent
    Files.writeString(original.resolve("metadata"), "{}")
    val target = Files.createDirectory(folder.resolve("copy"))
    val source = new QueryCheckpoint(conf, s"file:$original")
    def draft() =
      new CheckpointDraft(source, new Path(s"file:$target"), conf, KeystateErrors.savepointExists)
    val e = intercept[KeystateException](draft().write {
      draft().write(())
      val _ = Files.createFile(target.resolve("made"))
    })
    assert(e.code == "KEYSTATE_SAVEPOINT_EXISTS")
    assert(names(target).filterNot(_.endsWith(".crc")) == Seq("_keystate", "made", "metadata"))
    assert(names(folder) == Seq("copy", "original"))
  }
}
