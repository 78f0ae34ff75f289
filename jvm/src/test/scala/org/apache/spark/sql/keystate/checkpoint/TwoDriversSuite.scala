package org.apache.spark.sql.keystate.checkpoint

import java.io.File
import java.nio.file.Files

import scala.util.Using

import org.apache.commons.io.FileUtils
import org.apache.hadoop.fs.Path
import org.json4s.{DefaultFormats, Formats}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceOffset
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

import keystate.checkpoint.{
  Rescaling, SegmentName, SourceSegments, StoreFixture, StoreSettings, StoredVersions
}
import keystate.errors.{KeystateException, MixedPartitionsException}
import keystate.files.{CheckpointStorage, StoreLocation}
import keystate.keygroup.KeyGroups
import keystate.version.EntryCounts
import org.apache.spark.sql.keystate.files.{QueryLogs, SparkCheckpointStorage}
import org.apache.spark.sql.keystate.rescale.QueryRescaling

/** Checkpoints as two drivers, or an earlier release after them, leave them behind. */
class TwoDriversSuite extends AnyFunSuite with StoreFixture with BeforeAndAfterAll {
  private implicit val formats: Formats = DefaultFormats
  private val K = 16
  private var session: SparkSession = _

  override protected def beforeAll(): Unit =
    session =
      SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

  override protected def afterAll(): Unit = session.stop()

  private def hadoopConf = session.sessionState.newHadoopConf()

  /** Batches 0 and 1 were committed with 4 partitions and checkpoint format v1. */
  private def withCheckpoint(test: (String, CheckpointStorage) => Any): Unit = {
    val folder = Utils.createTempDir(namePrefix = "keystate-two-drivers")
    try {
      val record = new File(folder, "state/0/_keystate/operator")
      record.getParentFile.mkdirs()
      Files.writeString(record.toPath, s"""{"format":1,"maxParallelism":$K}""")
      val conf = session.sessionState.newHadoopConf()
      val storage = new SparkCheckpointStorage(new Path(s"file:$folder/state/0"), conf)
      (0 until 4).foreach { partition =>
        val store = newStore(storage, StoreSettings(Some(K), Some(4)), at(partition))
        store.load(0, None)
        register(store)
        (0 to 1).foreach { batch =>
          (0 until K)
            .filter(KeyGroups.subtaskOf(_, 4, K) == partition)
            .foreach(group => change(store, "p", group, s"$batch", "x"))
          store.commit(None)
        }
        store.close()
      }
      (0L to 1L).foreach { batch =>
        log(folder, batch, 4)
        new CommitLog(session, s"file:$folder/commits").add(batch, CommitMetadata(0))
      }
      test(s"file:$folder", storage)
      ()
    } finally Utils.deleteRecursively(folder)
  }

  private def log(folder: File, batch: Long, partitions: Int, source: Option[String] = None) = {
    val metadata = OffsetSeqMetadata(
      batchTimestampMs = 1000 * (batch + 1),
      conf = Map(SQLConf.SHUFFLE_PARTITIONS.key -> s"$partitions")
    )
    val offsets = source.toSeq.map(json => Some(PythonStreamingSourceOffset(json)))
    val entries = QueryLogs.offsets(hadoopConf, new Path(s"file:$folder"))
    entries.replace(batch, OffsetSeq(offsets, Some(metadata)))
  }

  private def at(partition: Int) = StoreLocation(0, partition, StoreLocation.DefaultStore)

  private def problems(root: String): Seq[String] =
    Using.resource(new QueryCheckpoint(hadoopConf, root)) { checkpoint =>
      (new CheckpointReport(checkpoint).verify(new Progress) \ "problems").extract[Seq[String]]
    }

  private def folder(root: String) = new File(root.stripPrefix("file:"))

  test("a log entry with another number of partitions than the state has is told of and corrected") {
    withCheckpoint { (root, _) =>
      assert(problems(root).isEmpty)
      log(folder(root), 1, 3)
      val problem = problems(root).mkString
      assert(problem.contains("was committed with 4") && problem.contains("says 3"))
      assert(new QueryRescaling(session, root).run(None) == 4)
      assert(problems(root).isEmpty)
      log(folder(root), 1, 3)
      assert(new QueryRescaling(session, root).run(Some(2)) == 4)
      assert(problems(root).isEmpty)
    }
  }

  test("a partitioning that one operator has and another has not is not the committed one") {
    withCheckpoint { (root, storage) =>
      val state = new File(folder(root), "state")
      FileUtils.copyDirectory(new File(state, "0"), new File(state, "1"))
      Rescaling.run(storage, 0, at(0).store, 2, Seq.fill(4)(None), 3, () => "", newLocalFolder())
      log(folder(root), 1, 3)
      assert(new QueryRescaling(session, root).run(None) == 4)
      assert(problems(root).isEmpty)
    }
  }

  test("partitions of two partitionings are not put together") {
    withCheckpoint { (_, storage) =>
      val e = intercept[MixedPartitionsException] {
        Rescaling.run(storage, 0, at(0).store, 2, Seq.fill(3)(None), 4, () => "", newLocalFolder())
      }
      assert(e.code == "KEYSTATE_MIXED_PARTITIONS")
      assert(e.getMessage.contains("partition 0") && e.getMessage.contains("for 4 partitions"))
    }
  }

  test("a rescale of a part of the state, as earlier releases did it, is told of") {
    withCheckpoint { (root, storage) =>
      new QueryRescaling(session, root).run(Some(2))
      assert(problems(root).isEmpty, "a right rescale")
      val last = StoredVersions.read(storage, at(1), 2, Some("of2"))
      StoredVersions.write(
        storage,
        at(1),
        last.copy(
          runs = last.runs.take(1),
          entryCounts = last.entryCounts.map { case (family, _) =>
            family -> EntryCounts.of(last.partitioning.ownGroups.map(_ => 0L))
          }
        )
      )
      val found = problems(root).mkString
      assert(found.contains("Version 2 of operator 0"))
      assert(
        found.contains(
          s"has ${2 * K} entries in the files of the first number of partitions and $K in those of 2 partitions"
        )
      )
    }
  }

  test("a source's file that was replaced after Spark recorded it is told of") {
    withCheckpoint { (root, _) =>
      val sources = new SourceSegments(
        new SparkCheckpointStorage(
          new Path(root, "sources/0"),
          session.sessionState.newHadoopConf()
        )
      )
      def write(time: Long): Unit =
        sources.write(SegmentName(1, None), s"""{"time":$time,"states":[]}""".getBytes, Nil)
      log(folder(root), 1, 4, Some("""{"batch":1}"""))
      write(1999)
      assert(problems(root).isEmpty)
      write(2001)
      val problem = problems(root).mkString
      assert(problem.contains("sources/0/1.source") && problem.contains("another driver"))
    }
  }

  test("damaged logs are named") {
    withCheckpoint { (root, _) =>
      for (log <- Seq("offsets", "commits")) {
        val file = new File(folder(root), s"$log/1")
        val whole = Files.readAllBytes(file.toPath)
        new File(folder(root), s"$log/.1.crc").delete()
        for (damaged <- Seq("", "v1\n{", "v1\n{\"a\":}\n-")) {
          Files.writeString(file.toPath, damaged)
          val e = intercept[KeystateException](new QueryRescaling(session, root).run(Some(3)))
          assert(e.code == "KEYSTATE_CORRUPT_FILE", s"of '$damaged'")
          assert(e.getMessage.contains(s"$log/1"), s"of '$damaged'")
        }
        Files.write(file.toPath, whole)
      }
      assert(new QueryRescaling(session, root).run(Some(3)) == 4)
    }
  }
}
