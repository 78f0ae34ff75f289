package keystate.checkpoint

import java.io.IOException

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.Layout
import keystate.backend.auto.HeapShare

/** When a store moves between the heap and RocksDB, and that nothing else changes. No store tells
  * others what entries take, so each begins on the heap.
  */
class AutoBackendSuite extends AnyFunSuite with OnAuto {
  override protected val heapShare: HeapShare = new HeapShare(tellsFrom = Long.MaxValue)
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

  private def withRoom[T](body: => T): T = {
    val bytes = heapBytes
    heapBytes = roomy
    try body
    finally heapBytes = bytes
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

  test("a load that passes the share goes on in RocksDB") {
    val storage = new MemoryStorage
    // More than are added between two looks at the memory.
    val expected = (0 until 20000).map(i => ("p", i % 16, s"$i") -> s"value $i").toMap
    withStore(storage) { store =>
      store.load(0, None)
      register(store)
      expected.foreach { case ((family, group, key), value) =>
        change(store, family, group, key, value)
      }
      store.commit(None)
    }
    for (settings <- Seq(StoreSettings(onDemandBytes = Long.MaxValue), onDemand))
      withStore(storage, settings) { store =>
        withHeap(400000) {
          store.load(1, None)
          assert(content(store) == expected)
        }
        assert(store.isOnDisk && store.moves == 1)
      }
  }

  private val operations = Seq[(String, VersionedStore => Any)](
    ("get", s => assert(s.backend.get(s.family("p").get.id, 20, bytes("1")) != null)),
    (
      "multiGet",
      { s =>
        val values = new Array[Array[Byte]](2)
        val keys = Array(bytes("1"), bytes("none"))
        s.backend.multiGet(s.family("p").get.id, Array(20, 20), keys, values, 2)
        assert(values(0) != null && values(1) == null)
      }
    ),
    ("put", change(_, "p", 20, "put", "x")),
    ("remove", change(_, "p", 20, "1", null)),
    ("scan", s => assert(s.backend.scan(s.family("g").get.id, 20, null, null).size == 10)),
    (
      "scanReverse",
      s => assert(s.backend.scanReverse(s.family("g").get.id, 20, null, null).size == 10)
    )
  )

  for ((name, operation) <- operations; ends <- Seq("commit", "rollback"))
    test(s"amid a transaction, by $name, with a $ends") {
      val (storage, entries) = written()
      withStore(storage, onDemand) { store =>
        store.load(1, None)
        register(store)
        val backend = store.backend
        change(store, "p", 3, "0", "changed")
        change(store, "p", 3, "1", null)
        change(store, "p", 4, "new", "made")
        store.dropFamily("gone")
        store.registerFamily("made", Layout.Point, Map("kind" -> "value"))
        change(store, "made", 5, "a", "b")
        val scan = backend.scan(store.family("g").get.id, 3, null, null)
        val first = scan.next()
        assert(!store.isOnDisk)
        withHeap(2)(operation(store))
        assert(store.isOnDisk && store.moves == 1 && (store.backend eq backend))
        assert(Seq(first.key, scan.next().key).map(_.last.toChar) == Seq('0', '1'))
        val changed = entries - (("p", 3, "1")) ++ Map(
          ("p", 3, "0") -> "changed",
          ("p", 4, "new") -> "made",
          ("made", 5, "a") -> "b"
        ) ++ Option.when(name == "put")(("p", 20, "put") -> "x") --
          Option.when(name == "remove")(("p", 20, "1"))
        assert(content(store) == changed)
        if (ends == "commit") store.commit(None) else store.rollback()
        val expected = if (ends == "commit") changed else entries + (("gone", 1, "a") -> "b")
        assert(content(store) == expected)
        withStore(storage, onDemand) { other =>
          other.load(if (ends == "commit") 2 else 1, None)
          assert(content(other) == expected)
        }
      }
    }

  test("a move that fails amid a transaction leaves nothing loaded, and the version as it was") {
    val (storage, entries) = written()
    withStore(storage, onDemand) { store =>
      store.load(1, None)
      change(store, "p", 3, "0", "changed")
      storage.before = (_, path) => throw new IOException(s"injected: $path")
      withHeap(2)(intercept[IOException](change(store, "p", 20, "0", "changed")))
      storage.before = (_, _) => ()
      assert(!store.isLoaded)
      store.rollback()
      store.load(1, None)
      assert(content(store) == entries + (("gone", 1, "a") -> "b"))
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

  for (fails <- Seq(false, true))
    test(s"a backend that is given up amid a move does no harm${if (fails) ", failing" else ""}") {
      val (storage, entries) = written()
      withStore(storage, onDemand) { store =>
        store.load(1, None)
        change(store, "p", 3, "0", "of the attempt before")
        val givenUp = store.backend
        val family = store.family("p").get.id
        var next = 0
        storage.before = (operation, path) =>
          if (operation == "open" && storage.isRun(path) && next == 0) {
            next += 1
            // The task was killed, and another attempt begins while the move reads its files.
            store.abandon()
            withRoom {
              store.load(1, None)
              change(store, "p", 4, "new", "of the next attempt")
            }
            if (fails) throw new IOException(s"injected: $path")
          }
        withHeap(2) {
          if (fails) intercept[IOException](givenUp.get(family, 20, bytes("0")))
          else intercept[IllegalStateException](givenUp.get(family, 20, bytes("0")))
        }
        assert(next == 1 && store.isLoaded)
        val expected =
          entries ++ Map(("p", 4, "new") -> "of the next attempt", ("gone", 1, "a") -> "b")
        assert(content(store) == expected)
        store.commit(None)
        assert(content(store) == expected)
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
