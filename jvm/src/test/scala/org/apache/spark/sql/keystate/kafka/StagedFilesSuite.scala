package org.apache.spark.sql.keystate.kafka

import java.nio.file.{Files, Paths}

import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.DamagedFileException

class StagedFilesSuite extends AnyFunSuite with BeforeAndAfterAll {
  private val folder = Files.createTempDirectory("staged")
  private val files = new StagedFiles(new Path(folder.toUri), new Configuration)

  override def afterAll(): Unit = FileUtils.deleteDirectory(folder.toFile)

  private def bytes(text: String) = text.getBytes("UTF-8")

  private val rows = Seq(
    KafkaRow("t", null, null, null, Nil),
    KafkaRow("ü", 3, bytes(""), bytes("x" * 100000), Seq("a" -> bytes("1"), "b" -> null)),
    KafkaRow("t", 0, bytes("k"), bytes("v"), Nil)
  )

  private def plain(row: KafkaRow) = (
    row.topic,
    Option(row.partition).map(_.toInt),
    Option(row.key).map(_.toSeq),
    Option(row.value).map(_.toSeq),
    row.headers.map { case (key, value) => (key, Option(value).map(_.toSeq)) }
  )

  private def staged(name: String): StagedFile = {
    val out = files.create(name)
    rows.foreach(out.add)
    out.close()
  }

  test("rows are as they were, also null ones and headers") {
    val file = staged("0-a")
    assert(files.read(file).map(plain).toSeq == rows.map(plain))
    assert(Files.size(Paths.get(s"$folder/_keystate/staged/0-a")) == file.bytes)
    val json = StagedBatch.of(0, "attempt", Seq(file, file, file), most = 2)
    assert(StagedBatch.fromJson(json.toJson).contains(json) && json.groups.map(_.size) == Seq(2, 1))
  }

  test("each changed byte and each other length is an error, not another row") {
    val file = staged("1-a")
    val path = Paths.get(s"$folder/_keystate/staged/1-a")
    val content = Files.readAllBytes(path)
    val changed = (0 until 80).map(at => content.updated(at, (content(at) ^ 0x11).toByte))
    val cut = Seq(0, 3, 50, content.length - 1).map(content.take)
    (changed ++ cut :+ (content :+ 0.toByte)).foreach { damaged =>
      Files.write(path, damaged)
      Files.deleteIfExists(path.resolveSibling(s".${path.getFileName}.crc"))
      assertThrows[DamagedFileException](files.read(file).foreach(_ => ()))
    }
  }
}
