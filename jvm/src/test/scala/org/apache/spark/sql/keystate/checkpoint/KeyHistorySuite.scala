package org.apache.spark.sql.keystate.checkpoint

import java.nio.file.Files
import java.util.Base64

import scala.util.Using

import org.json4s.JInt
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.types.{LongType, StructType}

import keystate._
import keystate.config.Settings
import keystate.faults.{ObjectFileSystem, Requests}
import org.apache.spark.sql.keystate.encoding.ArrowStreams

/** What the history of a key asks a store for. */
class KeyHistorySuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val batches = 6
  private val settings = ObjectFileSystem.settings() +
    (SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key -> Settings.FileManagerClass)
  private val location = s"${ObjectFileSystem.Scheme}:${folder.resolve("checkpoint")}"

  private def run(): Unit = {
    val input = Files.createDirectories(folder.resolve("input"))
    (0 until batches).foreach { i =>
      Files.writeString(input.resolve(s"$i.json"), s"""{"_1": 1, "_2": $i}""")
    }
    spark.readStream
      .schema("_1 long, _2 long")
      .option("maxFilesPerTrigger", 1)
      .json(input.toString)
      .as[(Long, Long)]
      .keyBy(_._1)
      .flatMap(new CountWindowAverage)
      .writeStream
      .format("noop")
      .option("checkpointLocation", location)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
  }

  private def key: String = {
    val columns = new StructType().add("key", LongType)
    val stream = new ArrowStreams("UTC", largeVarTypes = false).write(columns) { writers =>
      writers.head.write(InternalRow(1L), 0)
      1
    }
    Base64.getEncoder.encodeToString(stream)
  }

  test("each entry of a log and each version is asked for once, of several versions at a time") {
    settings.foreach { case (name, value) => spark.conf.set(name, value) }
    try {
      run()
      val conf = spark.sessionState.newHadoopConf()
      Using.resource(new QueryCheckpoint(conf, location)) { checkpoint =>
        val history = new KeyHistory(checkpoint, None)
        var versions = Seq.empty[BigInt]
        val asked = Requests.of {
          versions = (history.versions(key, 0, Long.MaxValue) \ "versions").children
            .map(_ \ "version")
            .collect { case JInt(version) => version }
        }
        assert(versions == (1 to batches))
        val paths = asked.map(one => s"${one.verb} ${one.path.split("/checkpoint")(1)}")
        val ofLogs = paths.filter(path => path.contains("/offsets/") || path.contains("/commits/"))
        assert(ofLogs == ofLogs.distinct)
        // The listing, the number of partitions by the file, the file of this number, and the file.
        assert(paths.count(_.contains("/state/0/")) <= 4 * batches + 10, paths)
        assert(asked.map(_.thread).distinct.size > batches / 2, asked)
      }
    } finally settings.keys.foreach(spark.conf.unset)
  }
}
