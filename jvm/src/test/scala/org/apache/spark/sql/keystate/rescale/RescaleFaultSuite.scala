package org.apache.spark.sql.keystate.rescale

import java.io.File
import java.nio.file.Files

import scala.util.Random

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.internal.SQLConf

import keystate.checkpoint.StoreSettings
import keystate.config.Settings
import keystate.errors.KeystateException
import keystate.faults.FaultFileSystem
import keystate.files.StoreLocation
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.files.OffsetEntry
import org.apache.spark.sql.keystate.metadata.OperatorRecord
import org.apache.spark.sql.keystate.store.FaultyStores

/** Rescales that are cut short, of a checkpoint with Spark's logs and Keystate's stores. */
class RescaleFaultSuite extends AnyFunSuite with FaultyStores with BeforeAndAfterAll {
  private val K = 16
  private var session: SparkSession = _

  override protected def beforeAll(): Unit =
    session =
      SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

  override protected def afterAll(): Unit = session.stop()

  /** A query of which batch 1 is committed in a layout, and batch 2 perhaps under way. */
  private final class Stopped(
      partitions: Int,
      ids: Boolean,
      pending: Boolean,
      rename: String = "replace",
      scheme: String = "fault"
  ) extends AutoCloseable {
    val at = new Faulty(rename)
    private val root = s"$scheme://${at.checkpoint.getPath}"
    private val settings = FaultFileSystem.settings(at.plan, rename) ++
      // As keystate.configure sets it: Spark's own manager renames.
      Option.when(rename == "objects")(
        SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key -> Settings.FileManagerClass
      ) + (SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key -> (if (ids) "2" else "1"))
    settings.foreach { case (key, value) => session.conf.set(key, value) }
    // Anew each time, for they remember what they added.
    private def offsets = new OffsetSeqLog(session, s"$root/offsets")
    private def commits = new CommitLog(session, s"$root/commits")
    private val record = new File(at.folder, "_keystate/operator")
    record.getParentFile.mkdirs()
    Files.writeString(record.toPath, OperatorRecord.encode(OperatorRecord(K)))

    val committed: Content =
      (0 until K).flatMap(g => (0 to 1).map(b => ("p", g, s"$b") -> s"$g of $b")).toMap
    val afterPending: Content = committed ++ (0 until K).map(g => ("p", g, "2") -> s"$g of 2")

    {
      val batches = if (pending) 0 to 2 else 0 to 1
      val attempts = batches.map { batch =>
        batch -> Seq.fill(partitions)(if (ids) newId() else None)
      }.toMap
      (0 until partitions).foreach { partition =>
        val store = open(partition, partitions)
        store.load(0, None)
        register(store)
        batches.foreach { batch =>
          (0 until K)
            .filter(KeyGroups.subtaskOf(_, partitions, K) == partition)
            .foreach(group => change(store, "p", group, s"$batch", s"$group of $batch"))
          store.commit(attempts(batch)(partition))
        }
        store.close()
      }
      batches.foreach { batch =>
        val conf = Map(SQLConf.SHUFFLE_PARTITIONS.key -> s"$partitions")
        offsets.add(batch.toLong, OffsetSeq(Nil, Some(OffsetSeqMetadata(conf = conf))))
        if (batch < 2) {
          val entry =
            if (ids)
              CommitEntry.of(Map(0L -> attempts(batch).map(_.toArray).toArray))
            else CommitMetadata(0)
          commits.add(batch.toLong, entry)
        }
      }
    }

    /** Runs batch 2 in a partition. */
    def runNext(partition: Int, partitions: Int): Unit = {
      val store = open(partition, partitions)
      store.load(2, idsOf(partitions)(partition))
      register(store)
      (0 until K)
        .filter(KeyGroups.subtaskOf(_, partitions, K) == partition)
        .foreach(group => change(store, "p", group, "2", s"$group of 2"))
      store.commit(None)
      store.close()
    }

    def rescale(partitions: Int): Int = new QueryRescaling(session, root).run(Some(partitions))

    /** The partitions that a restart would have, by each log entry that it reads. */
    def partitionsInLogs: Set[Int] =
      (1L to offsets.getLatestBatchId().get).map(partitionsIn).toSet

    def partitionsIn(batch: Long): Int =
      OffsetEntry
        .partitions(
          offsets.get(batch).getOrElse(throw new AssertionError(s"no entry of batch $batch"))
        )
        .get

    /** What the committed state is in a layout. */
    def state(partitions: Int): Content = content(2, idsOf(partitions), partitions)

    def pendingState(partitions: Int): Content =
      content(3, Seq.fill(partitions)(None), partitions)

    /** The layout of the committed state. */
    def layout: Int = commitIds.map(_.length).getOrElse(partitionsIn(1))

    private def commitIds = commits.get(1).get.stateUniqueIds.map(_(0L))

    private def idsOf(partitions: Int) =
      commitIds.fold(Seq.fill(partitions)(Option.empty[String]))(_.toSeq.map(id => Option(id.head)))

    private def content(version: Long, ids: Seq[Option[String]], partitions: Int): Content = {
      assert(ids.size == partitions)
      ids.zipWithIndex
        .map { case (id, partition) =>
          val store = open(partition, partitions)
          try {
            store.load(version, id)
            RescaleFaultSuite.this.content(store)
          } finally store.close()
        }
        .fold(Map.empty)(_ ++ _)
    }

    private def open(partition: Int, partitions: Int) = newStore(
      at.storage,
      StoreSettings(Some(K), Some(partitions)),
      StoreLocation(0, partition, StoreLocation.DefaultStore)
    )

    override def close(): Unit = settings.keys.foreach(key => session.conf.unset(key))
  }

  private def using(query: Stopped)(body: Stopped => Any): Unit =
    try {
      body(query)
      ()
    } finally query.close()

  test("the last entry of a log on a local disk is never missing while it is replaced") {
    using(new Stopped(2, ids = false, pending = false, scheme = "file")) { query =>
      @volatile var done = false
      @volatile var seen = Seq.empty[Int]
      @volatile var failure = Option.empty[Throwable]
      val reader = new Thread(() =>
        try while (!done) seen = (query.partitionsIn(1) +: seen).distinct
        catch { case e: Throwable => failure = Some(e) }
      )
      reader.start()
      (1 to 40).foreach(i => query.rescale(2 + i % 2))
      done = true
      reader.join()
      failure.foreach(throw _)
      assert(seen.toSet == Set(2, 3))
      assert(query.state(2) == query.committed)
    }
  }

  test("v1: a zombie of before a rescale does not harm what was committed since") {
    using(new Stopped(2, ids = false, pending = false)) { query =>
      val end = query.at.held("rename", """state/0/1/3\S*keystate$""")(query.runNext(1, 2))
      query.rescale(3)
      (0 until 3).foreach(query.runNext(_, 3))
      assert(end().isEmpty)
      assert(query.pendingState(3) == query.afterPending)
      // And of before a rescale back.
      val again = query.at.held("rename", """state/0/1/3\S*keystate$""")(query.runNext(1, 3))
      query.rescale(2)
      (0 until 2).foreach(query.runNext(_, 2))
      assert(again().isEmpty)
      assert(query.pendingState(2) == query.afterPending)
    }
  }

  for {
    ids <- Seq(false, true)
    pending <- Seq(false, true)
  } {
    val name = s"${if (ids) "v2" else "v1"}${if (pending) ", a batch pending" else ""}"

    for (rename <- Seq("replace", "objects"))
      test(s"$name, $rename: a process that dies at any step of a rescale") {
        // Each second one, unless SLOW is set.
        val every = if (sys.env.contains("SLOW")) 1 else 2
        var step = 1 + Random.nextInt(every)
        var died = true
        while (died) using(new Stopped(2, ids, pending, rename)) { query =>
          val dead = query.at.during("any", step.toLong, "dead")(query.rescale(3))
          died = query.at.happened
          if (died) {
            assert(dead.isDefined)
            withClue(s"died at step $step: ") {
              assert(query.state(query.layout) == query.committed)
              // The same again, another one, or back.
              val next = Seq(3, 5, 2)(step % 3)
              query.rescale(next)
              check(query, next)
            }
            step += every
          } else check(query, 3)
        }
        assert(step > (if (rename == "objects") 13 else 21))
        assert(leftBehind.isEmpty)
      }

    def check(query: Stopped, partitions: Int): Any = {
      assert(query.partitionsInLogs == Set(partitions))
      assert(query.layout == partitions)
      assert(query.state(partitions) == query.committed)
      if (pending && !ids) assert(query.pendingState(partitions) == query.afterPending)
    }

    test(s"$name: a file system that does not replace files is told of, and nothing is lost") {
      using(new Stopped(2, ids, pending, "refuse")) { query =>
        val e = intercept[KeystateException](query.rescale(3))
        assert(e.code == "KEYSTATE_CANNOT_REPLACE_FILE")
        assert(e.getMessage.contains("fault:"))
        check(query, 2)
      }
    }
  }
}
