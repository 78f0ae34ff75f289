package keystate.checkpoint

import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.{CheckpointException, MissingVersionException}
import keystate.version.PinnedVersions
import keystate.version.PinnedVersions.Pin

class PinnedVersionsSuite extends AnyFunSuite with StoreFixture {
  private val settings = StoreSettings(minVersionsToRetain = 2, minVersionsToDelete = 1)

  /** Each with a run of its own, which is merged soon. */
  private def commits(store: VersionedStore, versions: Range, id: Int => Option[String]): Unit =
    versions.foreach { i =>
      change(store, "p", i % 7, s"$i", large(i.toLong))
      store.commit(id(i))
      store.maintain()
    }

  private def expected(version: Int): Content =
    (1 to version).map(i => ("p", i % 7, s"$i") -> large(i.toLong)).toMap

  /** How many files there are after 80 versions of which none was pinned. */
  private def unpinned(id: Int => Option[String]): Int = {
    val storage = new MemoryStorage
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      commits(store, 1 to 80, id)
    }
    storage.paths.size
  }

  private def pins(storage: MemoryStorage) = storage.paths.filter(_.endsWith(".pin"))

  for (
    (format, id) <- Seq[(String, Int => Option[String])](
      "v1" -> (_ => None),
      "v2" -> (i => Some(s"id$i"))
    )
  )
    test(s"$format: what is pinned loads, as long as it is pinned") {
      val storage = new MemoryStorage
      def found(version: Int): Content = withStore(storage) { reader =>
        reader.load(version.toLong, id(version))
        content(reader)
      }
      withStore(storage, settings) { store =>
        store.load(0, None)
        register(store)
        commits(store, 1 to 10, id)
        val pin = new Pin(storage, location, 10)
        commits(store, 11 to 40, id)
        assert(found(10) == expected(10) && found(40) == expected(40))
        intercept[MissingVersionException](found(11))
        // A second one; the first goes on.
        val later = new Pin(storage, location, 38)
        commits(store, 41 to 60, id)
        assert(found(10) == expected(10) && found(38) == expected(38))
        pin.close()
        commits(store, 61 to 70, id)
        intercept[CheckpointException](found(10))
        assert(found(38) == expected(38))
        later.close()
        commits(store, 71 to 80, id)
        assert(storage.paths.size == unpinned(id), "what was only pinned is gone")
        assert(pins(storage).isEmpty)
      }
    }

  test("a pin whose writer died goes when its time is over") {
    val storage = new MemoryStorage
    withStore(storage, settings) { store =>
      store.load(0, None)
      register(store)
      commits(store, 1 to 5, _ => None)
      new Pin(storage, location, 5)
      storage.pass(PinnedVersions.LeaseMillis - 1000)
      commits(store, 6 to 20, _ => None)
      assert(pins(storage).size == 1 && storage.exists("3/5.keystate"))
      storage.pass(1001)
      commits(store, 21 to 30, _ => None)
      assert(pins(storage).isEmpty && !storage.exists("3/5.keystate"))
    }
  }
}
