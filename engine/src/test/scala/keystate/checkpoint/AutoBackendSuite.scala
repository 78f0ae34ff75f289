package keystate.checkpoint

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.Layout

/** When a store moves between the heap and RocksDB, and that nothing else changes. */
class AutoBackendSuite extends AnyFunSuite with OnAuto {
  private val roomy = 1L << 40
  private var heapBytes = roomy
  override protected def maxHeap: Long = heapBytes

  private val onDemand =
    StoreSettings(sectionBytes = 4000, onDemandBytes = 0, pieceEntries = 100)

  private def withHeap[T](bytes: Long)(body: => T): T = {
    heapBytes = bytes
    try body
    finally heapBytes = roomy
  }

  private def fill(store: VersionedStore, kilobytes: Int): Content =
    (0 until kilobytes).map { i =>
      val value = large(i.toLong, 1000)
      change(store, "p", i % 128, s"$i", value)
      ("p", i % 128, s"$i") -> value
    }.toMap

  /** A run file of 640 entries, committed as version 1. */
  private def written(): (MemoryStorage, Content) = {
    val storage = new MemoryStorage
    withStore(storage, onDemand) { store =>
      store.load(0, None)
      register(store)
      store.registerFamily("gone", Layout.Point, Map("kind" -> "value"))
      val entries = {
        for { family <- Seq("p", "g"); group <- 0 until 32; n <- 0 until 10 } yield {
          val value = large(group * 10L + n, 300)
          change(store, family, group, s"$n", value)
          (family, group, s"$n") -> value
        }
      }.toMap
      change(store, "gone", 1, "a", "b")
      store.commit(None)
      (storage, entries)
    }
  }

  test("state that outgrows the share moves at the next load, and comes back once it is small") {
    val storage = new MemoryStorage
    withStore(storage)(store =>
      withHeap(400000) {
        store.load(0, None)
        register(store)
        fill(store, 100)
        store.commit(None)
        store.load(1, None)
        assert(store.moves == 0 && !store.isOnDisk, "half of the share is used")
        val expected = fill(store, 220)
        store.commit(None)
        val files = storage.paths
        store.load(2, None)
        assert(store.moves == 1 && store.isOnDisk)
        assert(content(store) == expected && storage.paths == files)
        for (kilobyte <- 110 until 220) change(store, "p", kilobyte % 128, s"$kilobyte", null)
        store.commit(None)
        store.load(3, None)
        assert(store.moves == 1, "with more than half of the share it stays where it is")
        for (kilobyte <- 60 until 110) change(store, "p", kilobyte % 128, s"$kilobyte", null)
        store.commit(None)
        store.moveIfDue()
        assert(store.moves == 2 && !store.isOnDisk)
        assert(content(store) == expected.filter { case ((_, _, key), _) => key.toInt < 60 })
      }
    )
  }

  test("the largest store makes room for the others") {
    val storages = Seq.fill(3)(new MemoryStorage)
    val stores = storages.map(newStore(_))
    try
      withHeap(800000) {
        stores.zip(Seq(60, 300, 100)).foreach { case (store, kilobytes) =>
          store.load(0, None)
          register(store)
          fill(store, kilobytes)
          store.commit(None)
        }
        stores.foreach(_.load(1, None))
        assert(stores.map(_.isOnDisk) == Seq(false, true, false))
      }
    finally stores.foreach(_.close())
  }

  for (settings <- Seq(StoreSettings(onDemandBytes = Long.MaxValue), onDemand))
    test(s"a load that would pass the share goes into RocksDB at once, ${settings.onDemandBytes}") {
      val storage = new MemoryStorage
      val expected = (0 until 20000).map(i => ("p", i % 16, s"$i") -> s"value $i").toMap
      withStore(storage) { store =>
        store.load(0, None)
        register(store)
        expected.foreach { case ((family, group, key), value) =>
          change(store, family, group, key, value)
        }
        store.commit(None)
      }
      withStore(storage, settings) { store =>
        withHeap(400000) {
          store.load(1, None)
          assert(store.isOnDisk && store.moves == 0)
          assert(content(store) == expected)
        }
      }
    }

  test("what was loaded on demand counts from the load on, and moves after the commit") {
    val (storage, entries) = written()
    withStore(storage, onDemand) { store =>
      store.load(1, None)
      assert(!store.isOnDisk)
      withHeap(2) {
        change(store, "p", 20, "1", "changed")
        assert(!store.isOnDisk)
        store.commit(None)
        store.moveIfDue()
        assert(store.isOnDisk && store.moves == 1)
        assert(
          content(store) == entries ++ Map(("p", 20, "1") -> "changed", ("gone", 1, "a") -> "b")
        )
      }
    }
  }

  test("a backend that is given up neither moves nor counts") {
    val (storage, entries) = written()
    withStore(storage, onDemand) { store =>
      store.load(1, None)
      val givenUp = store.backend
      store.abandon()
      store.load(1, None)
      withHeap(2)(assert(givenUp.get(store.family("p").get.id, 20, bytes("0")) != null))
      givenUp.close()
      assert(store.moves == 0)
      assert(content(store) == entries + (("gone", 1, "a") -> "b"))
    }
  }

  test("a run that RocksDB's store wrote is read on the heap, and the other way round") {
    val storage = new MemoryStorage
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      var expected: Content = Map.empty
      for (version <- 0 until 6) {
        withHeap(if (version % 2 == 0) roomy else 2)(store.load(version.toLong, None))
        register(store)
        assert(content(store) == expected)
        val value = large(version.toLong)
        change(store, "p", 1, s"$version", value)
        expected = expected + (("p", 1, s"$version") -> value)
        withHeap(if (version % 2 == 0) 2 else roomy)(store.commit(None))
      }
      assert(storage.runs.map(_.takeRight(4)).toSet == Set(".sst", ".lz4"))
    }
  }
}
