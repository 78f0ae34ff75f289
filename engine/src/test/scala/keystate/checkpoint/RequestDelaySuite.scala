package keystate.checkpoint

import java.io.{File, InputStream}
import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.Layout
import keystate.files.{AtomicOutputStream, CheckpointStorage, StoreLocation, StoredFile}
import keystate.keygroup.{KeyGroupRange, KeyGroups}
import keystate.version.{Manifest, Partitioning, VersionFile, VersionFinder}

/** A storage that takes its time: what can wait side by side does. */
class RequestDelaySuite extends AnyFunSuite with StoreFixture {
  private val delayMillis = 30L
  private val K = KeyGroups.MaxMaxParallelism

  /** Each request of the storage below takes this long, however many there are at a time. */
  private final class Slow(storage: CheckpointStorage) extends CheckpointStorage {
    val requests = new AtomicInteger
    private val now = new AtomicInteger
    private val most = new AtomicInteger

    /** The largest number of them at a time. */
    def atOnce: Int = most.get

    private def wait[T](request: => T): T = {
      requests.incrementAndGet()
      most.accumulateAndGet(now.incrementAndGet(), Math.max)
      try {
        Thread.sleep(delayMillis)
        request
      } finally {
        now.decrementAndGet()
        ()
      }
    }
    override def open(path: String, offset: Long): InputStream = wait(storage.open(path, offset))
    override def link(path: String, file: File): Boolean = false
    override def createAtomic(path: String, mustBeNew: Boolean): AtomicOutputStream =
      wait(storage.createAtomic(path, mustBeNew))
    override def list(folder: String): Seq[StoredFile] = wait(storage.list(folder))
    override def folders(): Seq[String] = wait(storage.folders())
    override def exists(path: String): Boolean = wait(storage.exists(path))
    override def delete(path: String): Unit = wait(storage.delete(path))
    override def describe(path: String): String = storage.describe(path)
  }

  for (format <- Seq("v1", "v2"))
    test(s"$format: 1,000 partitions become 1,500 side by side") {
      val storage = new MemoryStorage
      val ids = (0 until 1000).map(_ => if (format == "v2") newId() else None)
      ids.zipWithIndex.foreach { case (id, partition) =>
        val at = StoreLocation(0, partition, StoreLocation.DefaultStore)
        val groups = KeyGroups.rangeOf(partition, ids.size, K)
        VersionFile.write(storage, at, empty(7, id, partition, ids.size, groups))
      }
      val slow = new Slow(storage)
      val renamed = rescale(slow, 7, ids, 1500)
      assert(slow.atOnce >= 8)
      assert(slow.requests.get <= 3600, "requests")
      (0 until 1500).foreach { partition =>
        val at = StoreLocation(0, partition, StoreLocation.DefaultStore)
        val manifest = VersionFinder.read(storage, at, 7, renamed(partition), Some(1500))
        assert(manifest.partitioning.groups == KeyGroups.rangeOf(partition, 1500, K))
      }
    }

  for (format <- Seq("v1", "v2"))
    test(s"$format: the operator state of 200 subtasks is read side by side") {
      val subtasks = 200
      val settings = StoreSettings(maxParallelism = Some(K), parallelism = Some(subtasks))
      val storage = new MemoryStorage
      def at(partition: Int) = StoreLocation(0, partition, StoreLocation.DefaultStore)
      def state(partition: Int) =
        OperatorState(1, Seq(OperatorList("u", union = true, Seq(s"$partition"))))
      val ids = (0 until subtasks).map { partition =>
        val id = if (format == "v2") newId() else None
        val store = newStore(storage, settings, at(partition))
        try {
          store.load(0, None)
          val family = store
            .registerFamily(OperatorState.FamilyName, Layout.Point, Map("kind" -> "operator"))
            .id
          val json = OperatorState.toJson(state(partition))
          store.backend.put(family, KeyGroups.operatorGroup(K), OperatorState.StateKey, json)
          store.commit(id)
        } finally store.close()
        id
      }
      val slow = new Slow(storage)
      val store = newStore(slow, settings, at(3))
      try {
        store.load(1, ids(3))
        slow.requests.set(0)
        val found = store.operatorStates(ids)
        assert(found == (0 until subtasks).map(state))
        // With v1 a file that a rescale to this number of partitions wrote would count.
        assert(slow.requests.get == (subtasks - 1) * (if (format == "v1") 2 else 1))
        assert(slow.atOnce >= 8)
      } finally store.close()
    }

  test("a load fetches its runs side by side") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      (0 until 16).foreach { i =>
        change(store, "p", i, s"$i", large(i.toLong, 70000))
        store.commit(None)
      }
      assert(store.manifest.runs.size == 16)
    }
    val slow = new Slow(storage)
    withStore(slow) { store =>
      store.load(16, None)
      assert(slow.requests.get >= 17)
      assert(slow.atOnce >= 4)
      assert(content(store).size == 16)
    }
    assert(leftBehind.isEmpty)
  }

  test("a load that fails leaves nothing behind, whatever was fetched ahead") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      (0 until 16).foreach { i =>
        change(store, "p", i, s"$i", large(i.toLong, 70000))
        store.commit(None)
      }
    }
    val damaged = storage.runs(2)
    storage.damage(damaged)(_.dropRight(1))
    withStore(new Slow(storage)) { store =>
      intercept[keystate.errors.CorruptFileException](store.load(16, None))
      assert(!store.isLoaded)
      assert(leftBehind.flatMap(_.listFiles).isEmpty)
    }
    assert(leftBehind.isEmpty)
  }

  private def empty(
      version: Long,
      id: Option[String],
      partition: Int,
      partitions: Int,
      groups: KeyGroupRange
  ) =
    Manifest
      .empty(version, Partitioning(K, Some(partitions), partition, groups))
      .copy(id = id)
}
