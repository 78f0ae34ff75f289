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
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

import keystate.checkpoint.{Rescaling, StoreFixture, StoreSettings}
import keystate.errors.{KeystateException, MixedPartitionsException}
import keystate.files.{CheckpointStorage, StoreLocation}
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.files.{QueryLogs, SparkCheckpointStorage}
import org.apache.spark.sql.keystate.metadata.OperatorRecord
import org.apache.spark.sql.keystate.rescale.QueryRescaling

/** Checkpoints as two drivers leave them behind. */
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
      Files.writeString(record.toPath, OperatorRecord.encode(OperatorRecord(K)))
      val metadata = new File(folder, "state/0/_metadata/metadata")
      metadata.getParentFile.mkdirs()
      Files.writeString(metadata.toPath, "v1\n{}")
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

  private def log(folder: File, batch: Long, partitions: Int) = {
    val metadata = OffsetSeqMetadata(
      batchTimestampMs = 1000 * (batch + 1),
      conf = Map(SQLConf.SHUFFLE_PARTITIONS.key -> s"$partitions")
    )
    val entries = QueryLogs.offsets(hadoopConf, new Path(s"file:$folder"))
    entries.replace(batch, OffsetSeq(Nil, Some(metadata)))
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
