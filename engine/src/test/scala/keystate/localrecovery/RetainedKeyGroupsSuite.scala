package keystate.localrecovery

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.backend.{GroupEntries, Layout, StateBackendFactory}
import keystate.checkpoint.{MemoryStorage, StoreFixture, StoreSettings, VersionedStore}
import keystate.files.StoreLocation
import keystate.version.Manifest

/** Stores that go on with what closed ones left in memory. The simulation does the same in every
  * order, with faults.
  */
class RetainedKeyGroupsSuite extends AnyFunSuite with StoreFixture {
  private val groups = 16
  private val retained = new RetainedKeyGroups

  private object localRecovery extends LocalRecovery {
    var forgets = Seq.empty[() => Unit]
    override def recover(manifest: Manifest): Map[(Int, Int), GroupEntries] =
      retained.recover("place", manifest)
    override def supersede(): Unit = ()
    override def retain(manifest: Manifest, entries: Map[(Int, Int), GroupEntries]): Unit =
      forgets :+= retained.retain("place", manifest, entries)
  }

  private def open(
      storage: MemoryStorage,
      partition: Int,
      partitions: Int,
      version: Long,
      id: Option[String],
      backends: StateBackendFactory = backends,
      onDemandBytes: Long = 0
  ): VersionedStore = {
    val settings = StoreSettings(
      Some(groups),
      Some(partitions),
      sectionBytes = 1000,
      onDemandBytes = onDemandBytes,
      pieceEntries = 1
    )
    val at = StoreLocation(0, partition, StoreLocation.DefaultStore)
    val store =
      new VersionedStore(at, storage, settings, backends, newLocalFolder(), localRecovery)
    store.load(version, id)
    store
  }

  private val timers = "timers"

  private def write(store: VersionedStore, number: Int): Unit = {
    register(store)
    store.registerFamily(timers, Layout.Ordered, Map("kind" -> "timer"))
    val own = store.manifest.partitioning.groups
    for (group <- own.first to own.last; family <- Seq("p", "g"); key <- 0 until 3)
      if ((key + number) % 2 == 0 && number > 1) change(store, family, group, s"$key", null)
      else change(store, family, group, s"$key", large(group * 100L + key + number, 300))
    val due = store.family(timers).get.id
    (own.first to own.last).foreach { group =>
      store.backend.put(due, group, bytes(s"timer $number"), bytes("x"))
    }
  }

  /** Two versions over two partitions, and their ids; the stores are open. */
  private def written(
      storage: MemoryStorage,
      withIds: Boolean
  ): (Seq[VersionedStore], Seq[Seq[Option[String]]]) = {
    val stores = Seq(0, 1).map(open(storage, _, 2, 0, None))
    val ids = Seq(1, 2).map { number =>
      stores.map { store =>
        write(store, number)
        store.commit(if (withIds) newId() else None).id
      }
    }
    (stores, ids)
  }

  private def all(stores: Seq[VersionedStore]): Content = stores.flatMap(content).toMap

  for (withIds <- Seq(false, true); partitions <- Seq(1, 2, 3, 5))
    test(s"$partitions partitions go on without reading a run, ids: $withIds") {
      val storage = new MemoryStorage
      val (stores, ids) = written(storage, withIds)
      val expected = all(stores)
      stores.foreach(_.close())
      val newIds = if (partitions == 2) ids.last else rescale(storage, 2, ids.last, partitions)
      storage.before = (operation, path) =>
        if (operation == "open" && storage.isRun(path)) throw new AssertionError(s"read $path")
      val next = (0 until partitions).map(i => open(storage, i, partitions, 2, newIds(i)))
      assert(all(next) == expected)
      assert(next.map(_.manifest.numKeys).sum == expected.size)
      assert(retained.isEmpty)
      storage.before = (_, _) => ()

      // They go on as if they had been loaded: what they commit reads back.
      val last = next.map { store =>
        write(store, 3)
        store.commit(if (withIds) newId() else None).id
      }
      val after = all(next)
      next.foreach(_.close())
      localRecovery.forgets.foreach(_())
      assert(retained.isEmpty)
      val loaded = last.indices.map(i => open(storage, i, partitions, 3, last(i)))
      assert(all(loaded) == after)
      loaded.foreach(_.close())
      localRecovery.forgets.foreach(_())
    }

  test("a version with other runs gets nothing of them") {
    val storage = new MemoryStorage
    val stores = Seq(open(storage, 0, 1, 0, None))
    write(stores.head, 1)
    stores.head.commit(None)
    val first = all(stores)
    // Of one group only: all others are the same in both versions.
    change(stores.head, "p", 7, "0", large(1, 300))
    stores.head.commit(None)
    stores.foreach(_.close())
    assert(!retained.isEmpty)
    val again = open(storage, 0, 1, 1, None)
    assert(all(Seq(again)) == first)
    again.close()
    localRecovery.forgets.foreach(_())
  }

  test("what was not committed is not left") {
    val storage = new MemoryStorage
    val store = open(storage, 0, 1, 0, None)
    write(store, 1)
    store.commit(None)
    val expected = content(store)
    change(store, "p", 2, "0", "changed")
    change(store, "g", 3, "1", null)
    store.dropFamily(timers)
    store.leave()
    assert(!store.isLoaded)
    val next = open(storage, 0, 1, 1, None)
    assert(content(next) == expected)
    Seq(store, next).foreach(_.close())
    localRecovery.forgets.foreach(_())
  }

  test("what was not loaded is read from the files") {
    val storage = new MemoryStorage
    val (stores, ids) = written(storage, withIds = true)
    val expected = all(stores)
    stores.foreach(_.close())
    localRecovery.forgets.foreach(_())
    val loaded = open(storage, 0, 2, 2, ids.last.head)
    val _ = loaded.backend.get(loaded.family("p").get.id, 3, entryKey("p", "0"))
    loaded.close()
    val next = Seq(0, 1).map(i => open(storage, i, 2, 2, ids.last(i)))
    assert(all(next) == expected)
    next.foreach(_.close())
    localRecovery.forgets.foreach(_())
  }

  test("part in memory, part in files that RocksDB wrote, or that are loaded at once") {
    val onDisk = new RocksDBStateBackendFactory
    onDisk.configure(Map("memoryMB" -> "64"))
    for (onDemandBytes <- Seq(0L, Long.MaxValue)) {
      val storage = new MemoryStorage
      val stores =
        Seq(0, 1).map(i => open(storage, i, 2, 0, None, if (i == 0) onDisk else backends))
      val ids = stores.map { store =>
        write(store, 1)
        store.commit(newId()).id
      }
      val expected = all(stores)
      stores.foreach(_.close())
      val newIds = rescale(storage, 1, ids, 1)
      val next = open(storage, 0, 1, 1, newIds.head, onDemandBytes = onDemandBytes)
      assert(content(next) == expected)
      assert(retained.isEmpty)
      next.close()
      localRecovery.forgets.foreach(_())
    }
  }
}
