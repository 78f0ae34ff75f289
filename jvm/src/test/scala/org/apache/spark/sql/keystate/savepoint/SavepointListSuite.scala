package org.apache.spark.sql.keystate.savepoint

import java.net.URI
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path, RawLocalFileSystem}
import org.json4s.JString
import org.json4s.jackson.JsonMethods.parse
import org.scalatest.funsuite.AnyFunSuite

/** Which savepoints are in a folder, by their records. */
class SavepointListSuite extends AnyFunSuite {
  private val conf = new Configuration
  conf.setClass("fs.bucket.impl", classOf[BucketFileSystem], classOf[RawLocalFileSystem])

  test("a folder is not one of the same name in another bucket or file system") {
    val root = new Path(Files.createTempDirectory("keystate-savepoints").toUri)
    val records = new SavepointRecords(root, conf)
    val folders = Seq(
      "bucket://one/backups",
      "bucket://other/backups",
      "bucket://one/backups#1",
      "bucket://one/backups?1",
      "bucket://one/more/backups",
      s"$root/backups"
    )
    folders.zipWithIndex.foreach { case (folder, i) =>
      // By reference, so that one that is gone is in the list.
      val record = SavepointRecords
        .Record(SavepointRecords.Made, s"$folder/a", SavepointRecords.References, 1, i, 0)
      records.make(s"$i", record)
    }
    def listed(in: Option[Path]) =
      parse(new SavepointList(root, conf).run(in)).children.map(_ \ "savepoint")
    folders.foreach { folder =>
      assert(listed(Some(new Path(folder))) == Seq(JString(s"$folder/a")))
    }
    assert(listed(None) == folders.map(folder => JString(s"$folder/a")))
  }
}

/** The local disk, whatever bucket is named. */
class BucketFileSystem extends RawLocalFileSystem {
  private var root: URI = _

  override def initialize(name: URI, conf: Configuration): Unit = {
    root = name.resolve("/")
    super.initialize(name, conf)
  }
  override def getUri: URI = Option(root).getOrElse(super.getUri)
}
