package org.apache.spark.sql.keystate.canary

import java.nio.file.{Files, Path => LocalPath}
import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.{ErrorCode, KeystateException}
import org.apache.spark.sql.keystate.files.OwnerFiles

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
      put(
        s"copy/${OwnerFiles.SuccessorFile}",
        s"""{"format":1,"original":"${place("original")}","query":"this","batch":0}"""
      )
      new Fork(place("copy"), new Configuration)
    }
    def stays(what: String, asSuccessor: Boolean = true) = withClue(what) {
      val error = intercept[KeystateException](make().delete(asSuccessor))
      assert(error.errorCode == ErrorCode.CannotCanary)
      assert(names(folder).contains("copy"))
    }
    def goes(what: String, asSuccessor: Boolean = true) = withClue(what) {
      make().delete(asSuccessor)
      assert(!names(folder).contains("copy"))
    }
    def owner(number: Int, moved: Option[Path]): Unit = {
      val to = moved.fold("")(path => s""","moved_to":"$path"""")
      put(
        s"original/_keystate/owners/$number",
        s"""{"format":1,"run":"r","host":"h","pid":1,"process_start":1,"time":""$to}"""
      )
    }
    stays("its original is deleted by now")
    put("original/metadata", """{"id":"this"}""")
    goes("its original goes on")
    stays("who deletes it has not the original", asSuccessor = false)
    put("original/_keystate/owners/moves", "")
    owner(1, Some(place("copy")))
    stays("it has the place of its original")
    owner(2, Some(place("elsewhere")))
    goes("another one has the place of its original")
    owner(3, None)
    goes("its original goes on again")
    put("copy/commits/1", "v1")
    stays("it has gone on by itself")
    Files.delete(folder.resolve("copy/commits/1"))
    put("original/_keystate/unfinished", "")
    stays("its original is being deleted")
    Files.delete(folder.resolve("original/_keystate/unfinished"))
    put("original/metadata", """{"id":"later"}""")
    stays("another query began in the place of its original")
    put("copy/_keystate/unfinished", "")
    goes("it was cut off, whatever became of the original", asSuccessor = false)
  }
}
