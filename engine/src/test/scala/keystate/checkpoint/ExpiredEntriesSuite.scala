package keystate.checkpoint

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.{Expiry, Layout, StateValue, TimeToLive, TtlEntries}

/** Merging in the background drops what has expired. */
class ExpiredEntriesSuite extends AnyFunSuite with StoreFixture {
  private val settings = StoreSettings(minVersionsToRetain = 1, minVersionsToDelete = 1)
  private val ttl = TimeToLive(millis = 100)

  /** Commits one version whose clock is at `time`, with new entries of about 50 KB each. */
  private def commit(store: VersionedStore, time: Long, keys: Seq[Int], ttl: TimeToLive): Unit = {
    commitOnly(store, time, keys, ttl)
    store.maintain()
  }

  private def commitOnly(
      store: VersionedStore,
      time: Long,
      keys: Seq[Int],
      ttl: TimeToLive
  ): Unit = {
    val expiry = new Expiry(ttl, time)
    val properties = Map("kind" -> "value") ++ expiry.properties
    val family = store.registerFamily("p", Layout.Point, properties)
    val entries = new TtlEntries(store.backend, expiry)
    keys.foreach { key =>
      val value = bytes(large(time * 1000 + key, 50000))
      entries.put(family.id, 5, bytes(s"$key"), StateValue.encode(value))
    }
    store.commit(None): Unit
  }

  private def filesHold(storage: MemoryStorage, version: Long): Map[String, Long] =
    withStore(storage) { reader =>
      reader.load(version, None)
      val family = reader.family("p").get
      reader.backend
        .scan(family.id, 5, null, null)
        .map(entry => new String(entry.key, "UTF-8") -> StateValue.timestamp(entry.value))
        .toMap
    }

  test("expired entries leave the files") {
    val storage = new MemoryStorage
    withStore(storage, settings) { store =>
      store.load(0, None)
      (1 to 60).foreach(i => commit(store, i * 10L, Seq(2 * i, 2 * i + 1), ttl))
      assert(store.compactions > 3)
    }
    val kept = filesHold(storage, 60)
    // 20 entries live, and a few wait for the next merge; the working copy still has all 120.
    assert(kept.count { case (_, timestamp) => timestamp > 500 } == 20)
    assert(kept.size < 60)
    assert(storage.runs.map(storage(_).length.toLong).sum < 65 * 50000)
  }

  test("an entry that expired does not bring an older one back") {
    val storage = new MemoryStorage
    withStore(storage, settings) { store =>
      store.load(0, None)
      // Old and large, so that it stays out of the merge; without a timestamp it would live on.
      store.registerFamily("p", Layout.Point, Map("kind" -> "value"))
      (0 until 30).foreach { key =>
        val value = StateValue.encode(bytes(large(key.toLong, 50000)))
        store.backend.put(store.family("p").get.id, 5, bytes(s"$key"), value)
      }
      store.commit(None)
      (2 to 5).foreach(i => commit(store, i.toLong, Seq(i), ttl))
      commit(store, 1000, Seq(40), ttl)
      commit(store, 1001, Seq(41), ttl)
      assert(store.compactions == 1)
    }
    val kept = filesHold(storage, 7)
    assert((0 until 30).diff(2 to 5).forall(key => kept.contains(s"$key")))
    assert(kept.keySet.intersect((2 to 5).map(_.toString).toSet).isEmpty)
  }

  test("where background cleanup is disabled expired entries stay") {
    val storage = new MemoryStorage
    withStore(storage, settings) { store =>
      store.load(0, None)
      (1 to 20).foreach(i => commit(store, i * 100L, Seq(i), ttl.copy(dropOnMerge = false)))
      assert(store.compactions > 1)
    }
    assert(filesHold(storage, 20).size == 20)
  }

  test("a time to live that a restart makes longer, or ends, brings back what files still have") {
    for (longer <- Seq(Some(1000L), None)) {
      val storage = new MemoryStorage
      withStore(storage, settings) { store =>
        store.load(0, None)
        (1 to 6).foreach(i => commitOnly(store, i * 10L, Seq(i), ttl))
        // Now those of the first five have expired. Nothing has merged them.
        commitOnly(store, 150, Seq(7), ttl)
      }
      withStore(storage, settings) { store =>
        store.load(7, None)
        // Maintenance comes while the first micro-batch runs, so by the properties of before.
        store.maintain()
        val expiry = longer.map(millis =>
          Expiry(ttl.copy(millis = millis), 160, store.family("p").get.properties)
        )
        val properties =
          Map("kind" -> "value") ++ expiry.fold(Map.empty[String, String])(_.properties)
        val family = store.registerFamily("p", Layout.Point, properties)
        val seen = expiry.fold(store.backend.get(family.id, 5, bytes("1"))) { expiry =>
          new TtlEntries(store.backend, expiry).get(family.id, 5, bytes("1"))
        }
        assert(seen != null)
        store.commit(None)
      }
      assert(filesHold(storage, 8).keySet == (1 to 7).map(_.toString).toSet)
    }
  }
}
