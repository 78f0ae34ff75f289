package org.apache.spark.sql.keystate.copies

import java.nio.file.{Files, Path => LocalPath}
import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.{ErrorCode, KeystateException}

/** What is deleted with a fork. */
class ForkSuite extends AnyFunSuite {
  private def names(folder: LocalPath): Set[String] =
    Files.list(folder).toList.asScala.map(_.getFileName.toString).toSet

  private def after(deleting: String)(folders: String*): Set[String] = {
    val parent = Files.createTempDirectory("keystate-fork")
    folders.foreach(name => Files.createDirectory(parent.resolve(name)))
    new Fork(new Path(new Path(parent.toUri), deleting), new Configuration).delete()
    names(parent)
  }

  test("of what was cut off only its own goes, and nothing of its neighbours") {
    val id = UUID.randomUUID
    val others = Seq(
      s".counts.backup.$id",
      s".counts-2.$id",
      ".counts.notes",
      s".counts.$id.more",
      s"counts.$id",
      "counts.old"
    )
    val own = Seq(s".counts.$id", s".counts.${UUID.randomUUID}.empty")
    assert(after("counts")(others ++ own: _*) == others.toSet)
  }

  test("signs in its name have no other meaning") {
    val id = UUID.randomUUID
    assert(after("count*")(s".count*.$id", s".counts.$id") == Set(s".counts.$id"))
    assert(after("c[1]{a")(s".c[1]{a.$id", s".c1.$id") == Set(s".c1.$id"))
  }

  test("a checkpoint that may have taken the place of another one is not deleted as its draft") {
    val folder = Files.createTempDirectory("keystate-fork")
    def place(name: String) = new Path(new Path(folder.toUri), name)
    def put(file: String, content: String): Unit = {
      val path = folder.resolve(file)
      Files.createDirectories(path.getParent)
      Files.writeString(path, content): Unit
    }
    // As a driver leaves it that dies while it promotes it, or just before.
    def make(): Fork = {
      put("copy/metadata", """{"id":"this"}""")
      put("copy/commits/0", "v1")
      put(s"copy/${Fork.Mark}", s"${place("original")}")
      new Fork(place("copy"), new Configuration)
    }
    def stays(what: String) = withClue(what) {
      val error = intercept[KeystateException](make().delete())
      assert(error.errorCode == ErrorCode.CannotCanary)
      assert(names(folder).contains("copy"))
    }
    def goes(what: String) = withClue(what) {
      make().delete()
      assert(!names(folder).contains("copy"))
    }
    val moved = "original/_keystate/unfinished"
    stays("its original is deleted by now")
    put("original/metadata", """{"id":"this"}""")
    goes("its original goes on")
    put(moved, s"""{"moved":"${place("copy")}"}""")
    stays("it has the place of its original")
    put(moved, """{"moved":"/elsewhere"}""")
    goes("another one has the place of its original")
    put(moved, "")
    stays("its original is being deleted")
    Files.delete(folder.resolve(moved))
    put("original/metadata", """{"id":"later"}""")
    stays("another query began in the place of its original")
    put("copy/_keystate/unfinished", "")
    goes("it was cut off, whatever became of the original")
  }
}
