package org.apache.spark.sql.keystate.copies

import java.nio.file.{Files, Path => LocalPath}
import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

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
}
