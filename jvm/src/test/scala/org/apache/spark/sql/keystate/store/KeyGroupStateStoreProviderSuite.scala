package org.apache.spark.sql.keystate.store

import java.util.concurrent.{Executors, TimeUnit}

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.{SparkException, SparkThrowable, TaskContext, TaskContextImpl}

import keystate.config.Settings
import keystate.errors.{
  BadSettingException, CorruptFileException, KeystateException, MaxParallelismMismatchException
}
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

class KeyGroupStateStoreProviderSuite extends AnyFunSuite with ProviderFixture {
  private val v2 = Map(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key -> "2")

  private def commit(provider: KeyGroupStateStoreProvider, version: Long, id: Option[String])(
      changes: StateStore => Any
  ): Option[String] = {
    val store = provider.getStore(version, id)
    changes(store)
    store.commit()
    store.getStateStoreCheckpointInfo().stateStoreCkptId
  }

  test("with checkpoint format v2 each commit has an id of its own and names its base") {
    val folder = newFolder()
    withProvider(newProvider(folder, conf = v2)) { provider =>
      val first = provider.getStore(0, None)
      first.put(key("a", 1), value(1))
      first.commit()
      val one = first.getStateStoreCheckpointInfo()
      assert(one.partitionId == 0 && one.batchVersion == 1)
      assert(one.stateStoreCkptId.isDefined && one.baseStateStoreCkptId.isEmpty)

      val attempts = (1 to 2).map { n =>
        val store = provider.getStore(1, one.stateStoreCkptId)
        store.put(key("a", 1), value(10 * n))
        store.commit()
        store.getStateStoreCheckpointInfo()
      }
      assert(attempts.forall(_.baseStateStoreCkptId == one.stateStoreCkptId))
      assert(attempts.map(_.stateStoreCkptId).distinct.size == 2)
      attempts.zip(Seq(10, 20)).foreach { case (attempt, expected) =>
        val store = provider.getReadStore(2, attempt.stateStoreCkptId)
        assert(store.get(key("a", 1)).getInt(0) == expected)
        store.release()
      }
    }
  }

  test("with v1 there are no ids") {
    withProvider(newProvider()) { provider =>
      assert(commit(provider, 0, None)(_.put(key("a", 1), value(1))).isEmpty)
    }
  }

  test("a second owner waits, and fails after the timeout with both owners' names") {
    withProvider(newProvider(hadoop = Map(Settings.LockTimeoutMs.key -> "2000"))) { provider =>
      val store = provider.getStore(0, None)
      val e = intercept[KeystateException](provider.getStore(0, None))
      assert(e.code == "KEYSTATE_STORE_IN_USE")

      val executor = Executors.newSingleThreadExecutor()
      try {
        val second = executor.submit(() => provider.getStore(0, None))
        Thread.sleep(50)
        assert(!second.isDone)
        store.put(key("a", 1), value(1))
        store.abort()
        val next = second.get(10, TimeUnit.SECONDS)
        assert(next.get(key("a", 1)) == null)
        intercept[SparkThrowable](store.put(key("b", 1), value(1)))
        store.abort()
        assert(next.get(key("a", 1)) == null, "an abort of the first does not close the second")
        next.abort()
      } finally executor.shutdown()
    }
  }

  test("a closed store refuses everything but what is harmless") {
    withProvider(newProvider()) { provider =>
      val committed = provider.getStore(0, None)
      intercept[SparkThrowable](committed.getStateStoreCheckpointInfo())
      committed.put(key("a", 1), value(1))
      committed.commit()
      assert(committed.hasCommitted)
      committed.abort()
      Seq[() => Any](
        () => committed.put(key("a", 1), value(2)),
        () => committed.get(key("a", 1)),
        () => committed.iterator(),
        () => committed.commit()
      ).foreach(operation => intercept[SparkThrowable](operation()))

      val aborted = provider.getStore(1, None)
      aborted.abort()
      aborted.abort()
      assert(!aborted.hasCommitted)
      val again = provider.getStore(1, None)
      assert(again.get(key("a", 1)).getInt(0) == 1)
      again.abort()
    }
  }

  test("a store read by one operator is written by the next, even if the provider was replaced") {
    val folder = newFolder()
    withProvider(newProvider(folder)) { provider =>
      commit(provider, 0, None)(_.put(key("a", 1), value(1)))
      val read = provider.getReadStore(1, None)
      intercept[IllegalArgumentException](
        provider.upgradeReadStoreToWriteStore(read, 2, None, false)
      )
      withProvider(newProvider(folder)) { replacement =>
        val write = replacement.upgradeReadStoreToWriteStore(read, 1, None, false)
        write.put(key("a", 1), value(read.get(key("a", 1)).getInt(0) + 1))
        assert(write.commit() == 2)
        read.abort()
        val next = replacement.getReadStore(2, None)
        assert(next.get(key("a", 1)).getInt(0) == 2)
        next.release()
      }
    }
  }

  test("what a task leaves open is aborted when it ends") {
    withProvider(newProvider()) { provider =>
      commit(provider, 0, None)(_.put(key("a", 1), value(1)))
      val task = TaskContext.empty()
      TaskContext.setTaskContext(task)
      try provider.getStore(1, None).put(key("a", 1), value(2))
      finally TaskContext.unset()
      task.markTaskCompleted(None)
      val store = provider.getStore(1, None)
      assert(store.get(key("a", 1)).getInt(0) == 1)
      store.abort()
    }
  }

  test("a task that has failed already gets no store, and holds none") {
    withProvider(newProvider(hadoop = Map(Settings.LockTimeoutMs.key -> "2000"))) { provider =>
      val task: TaskContextImpl = TaskContext.empty()
      task.markTaskFailed(new RuntimeException("failed before"))
      TaskContext.setTaskContext(task)
      try
        assert(
          intercept[RuntimeException](provider.getStore(0, None)).getMessage == "failed before"
        )
      finally TaskContext.unset()
      provider.getStore(0, None).abort()
    }
  }

  test("metrics have the declared names, also of a provider that was never initialised") {
    val declared = new KeyGroupStateStoreProvider().supportedCustomMetrics.toSet
    withProvider(newProvider()) { provider =>
      val store = provider.getStore(0, None)
      store.createColFamilyIfAbsent(
        "$index",
        keySchema,
        valueSchema,
        NoPrefixKeyStateEncoderSpec(keySchema),
        isInternal = true
      )
      store.put(key("a", 1), value(1))
      store.put(key("a", 1), value(1), "$index")
      store.commit()
      val metrics = store.metrics
      assert(metrics.customMetrics.keySet == declared)
      assert(metrics.numKeys == 1, "entries of internal column families are not counted")
      assert(metrics.memoryUsedBytes > 0)
      val byName = metrics.customMetrics.map { case (metric, value) => metric.name -> value }
      assert(byName("keystateFilesWritten") == 1 && byName("keystateBytesWritten") > 0)
      assert(byName("keystateRuns") == 1)
    }
  }

  test("settings come from the operator, else from the session, which fills the Hadoop conf") {
    val session = Map(Settings.MaxParallelism.key -> "64")
    val operator = Map(Settings.MaxParallelism.key -> "32")
    def maxParallelism(provider: KeyGroupStateStoreProvider): Int = withProvider(provider) { p =>
      val store = p.getStore(0, None).asInstanceOf[KeyGroupStateStore]
      try store.maxParallelism
      finally store.abort()
    }
    assert(maxParallelism(newProvider()) == 128)
    assert(maxParallelism(newProvider(hadoop = session)) == 64)
    assert(maxParallelism(newProvider(hadoop = session, extraOptions = operator)) == 32)

    val folder = newFolder()
    withProvider(newProvider(folder, hadoop = session))(commit(_, 0, None)(_ => ()))
    withProvider(newProvider(folder, hadoop = Map(Settings.MaxParallelism.key -> "128"))) {
      provider =>
        intercept[MaxParallelismMismatchException](provider.getStore(1, None))
        // And the provider is not blocked.
        intercept[MaxParallelismMismatchException](provider.getStore(1, None))
    }
    Seq(Settings.Backend.key -> "tape", Settings.MaxParallelism.key -> "many").foreach { setting =>
      val e = intercept[BadSettingException](newProvider(hadoop = Map(setting)))
      assert(e.getMessage.contains(setting._1) && e.getMessage.contains(setting._2))
    }
  }

  test("column families: names, removal, what is missing") {
    val folder = newFolder()
    withProvider(newProvider(folder)) { provider =>
      val store = provider.getStore(0, None)
      def create(name: String): Unit = store.createColFamilyIfAbsent(
        name,
        keySchema,
        valueSchema,
        NoPrefixKeyStateEncoderSpec(keySchema)
      )
      Seq("", " a", "a ", "default", "$a").foreach(name => intercept[SparkThrowable](create(name)))
      intercept[SparkThrowable](store.get(key("a", 1), "missing"))
      create("one")
      create("one")
      create("two")
      Seq("one", "two").foreach(name => store.put(key(name, 1), value(1), name))
      assert(store.get(key("one", 1), "two") == null)
      assert(
        store.asInstanceOf[KeyGroupStateStore].allColumnFamilyNames == Set("default", "one", "two")
      )
      assert(store.removeColFamilyIfExists("one") && !store.removeColFamilyIfExists("one"))
      intercept[SparkThrowable](store.get(key("one", 1), "one"))
      create("one")
      assert(store.iterator("one").isEmpty)
      store.commit()
    }
    withProvider(newProvider(folder, columnFamilies = false)) { provider =>
      val store = provider.getStore(1, None)
      intercept[SparkThrowable](store.get(key("two", 1), "two"))
      store.abort()
    }
  }

  test("empty state can be loaded at a version, for a repartition") {
    val folder = newFolder()
    withProvider(newProvider(folder)) { provider =>
      commit(provider, 0, None)(_.put(key("a", 1), value(1)))
      val store = provider.getStore(1, None, forceSnapshotOnCommit = false, loadEmpty = true)
      assert(store.iterator().isEmpty)
      store.put(key("b", 1), value(2))
      assert(store.commit() == 2)
      val read = provider.getReadStore(2, None)
      assert(pairs(read.iterator()) == Seq(("b", 1L) -> 2))
      read.release()
    }
  }

  test("errors of the files reach the task by their own names") {
    val folder = newFolder()
    withProvider(newProvider(folder))(commit(_, 0, None)(_.put(key("a", 1), value(1))))
    val file = new Path(s"$folder/0/0/1.keystate")
    val files = file.getFileSystem(new Configuration)
    val content = Using.resource(files.open(file))(_.readAllBytes())
    Using.resource(files.create(file, true))(_.write(content.dropRight(1)))
    withProvider(newProvider(folder)) { provider =>
      val e = intercept[CorruptFileException](provider.getStore(1, None))
      assert(e.getMessage.contains("0/0/1.keystate"))
      val missing = intercept[SparkException](provider.getStore(2, None))
      assert(missing.getMessage.contains("0/0/2.keystate"))
    }
  }

  for (conf <- Seq(Map.empty[String, String], v2))
    test(s"change feed and replay ${if (conf.isEmpty) "v1" else "v2"}") {
      withProvider(newProvider(conf = conf)) { provider =>
        var id = commit(provider, 0, None) { store =>
          store.put(key("a", 1), value(1))
          store.put(key("b", 1), value(2))
        }
        val first = id
        id = commit(provider, 1, id)(_ => ())
        id = commit(provider, 2, id) { store =>
          store.put(key("a", 1), value(3))
          store.remove(key("b", 1))
        }
        def feed(from: Long, to: Long) = provider
          .getStateStoreChangeDataReader(from, to, None, id)
          .map { case (kind, key, value, batch) =>
            (kind, key.getString(0), Option(value).map(_.getInt(0)), batch)
          }
          .toSet
        val third =
          Set((RecordType.PUT_RECORD, "a", Some(3), 2L), (RecordType.DELETE_RECORD, "b", None, 2L))
        assert(feed(3, 3) == third)
        assert(
          feed(1, 3) == third ++ Set(
            (RecordType.PUT_RECORD, "a", Some(1), 0L),
            (RecordType.PUT_RECORD, "b", Some(2), 0L)
          )
        )
        val replayed = provider.replayReadStateFromSnapshot(1, 3, first, id)
        assert(pairs(replayed.iterator()) == Seq(("a", 1L) -> 3))
        replayed.release()
        intercept[SparkThrowable](provider.replayReadStateFromSnapshot(7, 9, first, id))
        intercept[SparkThrowable](provider.replayReadStateFromSnapshot(0, 3, first, id))
      }
    }

  test("maintenance beside an open store, and after close") {
    val provider = newProvider(conf = Map(SQLConf.MIN_BATCHES_TO_RETAIN.key -> "2"))
    (0 until 20).foreach { version =>
      commit(provider, version.toLong, None) { store =>
        store.put(key("a", version.toLong), value(version))
        provider.doMaintenance()
      }
    }
    val store = provider.getReadStore(20, None)
    assert(pairs(store.iterator()).size == 20)
    store.release()
    intercept[SparkException](provider.getStore(3, None))
    provider.close()
    provider.close()
    provider.doMaintenance()
    intercept[IllegalStateException](provider.getStore(20, None))
  }
}
