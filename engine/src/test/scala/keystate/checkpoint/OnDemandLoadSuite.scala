package keystate.checkpoint

import java.io.File
import java.nio.file.Files

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import keystate.backend.heap.HeapStateBackendFactory
import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.backend.{Layout, StateBackendFactory}
import keystate.errors.{CorruptFileException, LocalStorageException}
import keystate.files.LocalFolder
import keystate.keygroup.KeyGroupRange

/** The heap backend loads key groups when they are asked for. */
class OnDemandLoadSuite extends AnyFunSuite with StoreFixture with ScalaCheckPropertyChecks {
  private val groups = 32
  private val settings =
    StoreSettings(Some(groups), Some(1), sectionBytes = 4000, onDemandBytes = 0, pieceEntries = 100)
  private val heap = new HeapStateBackendFactory
  private val at = location.copy(partition = 0)

  /** 20 entries a group in each of both families. */
  private val entries: Content = {
    for {
      family <- Seq("p", "g")
      group <- 0 until groups
      number <- 0 until 20
    } yield (family, group, s"$number") -> large(group * 20L + number, 300)
  }.toMap

  private def withFolder(
      storage: MemoryStorage,
      settings: StoreSettings = settings,
      backends: StateBackendFactory = heap
  )(body: (VersionedStore, File) => Any): Unit = {
    val folder = Files.createTempDirectory("keystate-test").toFile
    val local = new LocalFolder(() => folder)
    val _ = local.newFile()
    val store = new VersionedStore(at, storage, settings, backends, local)
    try body(store, folder)
    finally store.close()
    assert(!folder.exists, "the local folder goes with the store")
    ()
  }

  /** A run file of all entries, and a later version with an inline run. */
  private def written(
      settings: StoreSettings = settings,
      backends: StateBackendFactory = heap
  ): MemoryStorage = {
    val storage = new MemoryStorage
    withFolder(storage, settings, backends) { (store, _) =>
      store.load(0, None)
      register(store)
      store.registerFamily("timers", Layout.Ordered, Map("kind" -> "timer"))
      entries.foreach { case ((family, group, key), value) =>
        change(store, family, group, key, value)
      }
      store.backend.put(store.family("timers").get.id, 3, bytes("at noon"), bytes("x"))
      change(store, "p", groups, "rule", "of the subtask")
      store.commit(None)
      store.load(1, None)
      change(store, "p", 3, "0", "changed")
      change(store, "p", 3, "1", null)
      change(store, "p", 31, "new", "made")
      store.commit(None)
    }
    assert(storage.runs.size == 1)
    storage
  }

  private val expected =
    entries - (("p", 3, "1")) + (("p", 3, "0") -> "changed") + (("p", 31, "new") -> "made")

  private def assertContent(store: VersionedStore, expected: Content): Unit = {
    val found = content(store).filter { case ((family, _, _), _) => family != "timers" }
    val other = (found.keySet ++ expected.keySet).filter(key => found.get(key) != expected.get(key))
    assert(other.isEmpty)
    ()
  }

  private def get(store: VersionedStore, family: String, group: Int, key: String): Option[String] =
    Option(store.backend.get(store.family(family).get.id, group, entryKey(family, key)))
      .map(new String(_, "UTF-8"))

  test("a piece is loaded when one of its groups is asked for, and counted before that") {
    withFolder(written()) { (store, folder) =>
      store.load(2, None)
      def counts(family: String) = {
        val id = store.family(family).get.id
        (0 to groups).map(store.backend.count(id, _)) :+ store.backend.count(id)
      }
      val expectedCounts = Map(
        "p" -> ((0 to groups).map {
          case 3 => 19L
          case 31 => 21L
          case group => if (group == groups) 1L else 20L
        } :+ 641L),
        "g" -> ((0 until groups).map(_ => 20L) :+ 0L :+ 640L)
      )
      expectedCounts.foreach { case (family, counted) => assert(counts(family) == counted) }
      val before = store.backend.memoryUsed
      assert(get(store, "p", 3, "0").contains("changed"))
      val piece = store.backend.memoryUsed - before
      assert(piece > 5 * 19 * 300 && piece < 7 * 21 * 400, "six groups have a hundred entries")
      assert(get(store, "p", 0, "3") == expected.get(("p", 0, "3")))
      assert(store.backend.memoryUsed - before == piece, "it is in the same piece")
      assert(get(store, "p", 31, "new").contains("made") && get(store, "p", 3, "1").isEmpty)
      expectedCounts.foreach { case (family, counted) => assert(counts(family) == counted) }
      assert(folder.list().length == 1)
      assertContent(store, expected)
      expectedCounts.foreach { case (family, counted) => assert(counts(family) == counted) }
      assert(folder.list().isEmpty, "no local file is left once all is loaded")
    }
  }

  test("timers and the subtask's own entries are loaded at once") {
    withFolder(written()) { (store, folder) =>
      store.load(2, None)
      folder.listFiles.foreach(file => assert(file.delete()))
      assert(get(store, "p", groups, "rule").contains("of the subtask"))
      val timers = store.backend.scan(store.family("timers").get.id, 3, null, null)
      assert(timers.map(entry => new String(entry.key)).toSeq == Seq("at noon"))
      intercept[LocalStorageException](get(store, "p", 0, "0"))
    }
  }

  test("changes before a piece is loaded: committed, rolled back, and of other pieces") {
    val storage = written()
    withFolder(storage) { (store, _) =>
      store.load(2, None)
      change(store, "p", 5, "0", "first")
      change(store, "g", 9, "7", null)
      store.rollback()
      assert(get(store, "p", 5, "0") == expected.get(("p", 5, "0")))
      assert(get(store, "g", 9, "7") == expected.get(("g", 9, "7")))
      change(store, "p", 12, "0", "second")
      change(store, "p", 12, "1", null)
      change(store, "p", 12, "2", null)
      change(store, "p", 12, "2", "again")
      store.commit(None)
      assert(get(store, "p", 25, "0") == expected.get(("p", 25, "0")), "a piece after the commit")
    }
    withFolder(storage) { (store, _) =>
      store.load(3, None)
      val changed = expected - (("p", 12, "1")) +
        (("p", 12, "0") -> "second") + (("p", 12, "2") -> "again")
      assertContent(store, changed)
    }
  }

  test("a local copy that is damaged: nothing of a piece is seen, and another load fetches it") {
    withFolder(written()) { (store, folder) =>
      store.load(2, None)
      assert(get(store, "p", 0, "0").isDefined)
      val file = folder.listFiles.head
      val good = Files.readAllBytes(file.toPath)
      // Each part but the index at its end.
      Files.write(
        file.toPath,
        good.zipWithIndex.map { case (byte, i) =>
          if (i % 1000 == 500 && i < good.length - 2000) (byte ^ 1).toByte else byte
        }
      )
      for (_ <- 1 to 2) {
        val e = intercept[CorruptFileException](get(store, "p", 20, "0"))
        assert(e.getMessage.contains("local copy") && e.file.endsWith(".lz4"))
      }
      assert(get(store, "p", 0, "0").isDefined, "what was loaded stays")
      assert(store.backend.count(store.family("p").get.id) == 641)
      store.rollback()
      store.load(2, None)
      assertContent(store, expected)
    }
  }

  test("a backend that is given up takes its local files with it") {
    withFolder(written()) { (store, folder) =>
      store.load(2, None)
      val givenUp = store.backend
      store.abandon()
      store.load(2, None)
      assert(folder.list().length == 2)
      assert(givenUp.get(store.family("p").get.id, 20, bytes("0")) != null, "it is still of use")
      givenUp.close()
      assert(folder.list().length == 1)
      assertContent(store, expected)
    }
  }

  test("files without sections, of RocksDB and of small versions are loaded at once") {
    def localFilesAfterLoad(storage: MemoryStorage, settings: StoreSettings): Int = {
      var files = -1
      withFolder(storage, settings) { (store, folder) =>
        store.load(2, None)
        files = Option(folder.list()).fold(0)(_.length)
        assertContent(store, expected)
      }
      files
    }
    val whole = settings.copy(sectionBytes = Int.MaxValue)
    assert(localFilesAfterLoad(written(), settings.copy(onDemandBytes = 1 << 20)) == 0)
    assert(localFilesAfterLoad(written(whole), whole) == 0)
    val rocksdb = new RocksDBStateBackendFactory
    rocksdb.configure(Map("memoryMB" -> "32"))
    assert(localFilesAfterLoad(written(backends = rocksdb), settings) == 0)
    assert(localFilesAfterLoad(written(), settings) == 1, "else the run's file is kept")
  }

  test("pieces are all groups in their order, with enough entries and not too many") {
    val counts = Gen.listOf(Gen.oneOf(Gen.const(0L), Gen.choose(0L, 3000L), Gen.choose(0L, 100L)))
    forAll(Gen.choose(0, 100), counts, Gen.oneOf(1L, 100L, 4096L)) { (first, counted, fewest) =>
      val all = counted.toIndexedSeq :+ 1L
      val range = KeyGroupRange(first, first + all.size - 1)
      val pieces = OnDemandLoad.pieces(range, fewest, group => all(group - first))
      assert(pieces.flatMap(piece => piece.first to piece.last) == (range.first to range.last))
      assert(pieces.size <= OnDemandLoad.MostPieces)
      pieces.init.foreach { piece =>
        val entries = (piece.first to piece.last).map(group => all(group - first))
        assert(entries.sum >= fewest && entries.init.sum < Math.max(fewest, all.sum / 64 + 1))
      }
    }
  }
}
