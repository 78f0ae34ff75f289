package keystate.checkpoint

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.{KeyedStateBackend, Layout, StateFamily}
import keystate.files.StoreLocation

/** Lookups of the RocksDB backend where filters say of keys that they are not stored. */
class FilteredLookupsSuite extends AnyFunSuite with OnRocksDB {
  // All filters together may take a quarter.
  override protected def memoryMB: Int = 1
  private val mostBytes = (1L << 20) / 4

  override protected val location: StoreLocation = StoreLocation(0, 0, StoreLocation.DefaultStore)
  private val settings = StoreSettings(Some(8), Some(1))
  private val families = Seq("p", "g")

  private def key(n: Int): String = f"key $n%07d"

  /** A store with its model. */
  private class Filtered(val store: VersionedStore) {
    private var model: Content = Map.empty
    private var missed = 0

    def load(version: Long, expected: Content = Map.empty): Unit = {
      store.load(version, None)
      register(store)
      model = expected
    }

    def put(group: Int, numbers: Iterable[Int], value: String = "v"): Unit =
      for (family <- families; n <- numbers) {
        change(store, family, group, key(n), s"$value $n")
        model += (family, group, key(n)) -> s"$value $n"
      }

    def remove(group: Int, numbers: Iterable[Int]): Unit =
      for (family <- families; n <- numbers) {
        change(store, family, group, key(n), null)
        model -= ((family, group, key(n)))
      }

    def commit(): Content = {
      store.commit(None)
      model
    }

    def rollback(committed: Content): Unit = {
      store.rollback()
      model = committed
    }

    def backend: KeyedStateBackend = store.backend

    /** Looks up keys that were never stored, until there are filters. Returns their bytes. */
    def miss(groups: Seq[Int], times: Int): Long = {
      val before = backend.memoryUsed
      for (family <- families; group <- groups; _ <- 0 until times) {
        // Each another one: what a lookup found is noted.
        missed += 1
        assert(lookUp(family, group, s"never stored $missed").isEmpty)
      }
      backend.memoryUsed - before
    }

    def lookUp(family: String, group: Int, key: String): Option[String] = {
      val id = store.family(family).get.id
      Option(backend.get(id, group, entryKey(family, key))).map(new String(_, "UTF-8"))
    }

    /** All keys of the groups, stored or not, in both ways to look them up. */
    def check(groups: Seq[Int], numbers: Range): Unit = for (family <- families) {
      val asked = for (group <- groups; n <- numbers) yield (group, key(n))
      val values = new Array[Array[Byte]](asked.size)
      val id = store.family(family).get.id
      val keys = asked.map { case (_, key) => entryKey(family, key) }
      backend.multiGet(id, asked.map(_._1).toArray, keys.toArray, values, asked.size)
      asked.zip(values).foreach { case ((group, key), value) =>
        val expected = model.get((family, group, key))
        assert(Option(value).map(new String(_, "UTF-8")) == expected, s"$family $group $key")
      }
      Random.shuffle(asked).take(500).foreach { case (group, key) =>
        assert(lookUp(family, group, key) == model.get((family, group, key)))
      }
    }
  }

  private def filtered[T](storage: MemoryStorage, parallelism: Int = 1, partition: Int = 0)(
      body: Filtered => T
  ): T = {
    val store = newStore(
      storage,
      settings.copy(parallelism = Some(parallelism)),
      StoreLocation(0, partition, StoreLocation.DefaultStore)
    )
    try body(new Filtered(store))
    finally store.close()
  }

  test("a key stored before a restart is found after filters were made, and so are later ones") {
    val storage = new MemoryStorage
    val first = filtered(storage) { store =>
      store.load(0)
      store.put(3, 0 until 4000 by 2)
      store.commit()
    }
    filtered(storage) { store =>
      store.load(1, first)
      assert(store.miss(Seq(3), 1000) == 0, "half the price")
      assert(store.miss(Seq(3), 1100) > 2 * 2000, "a filter for each family")
      store.check(Seq(3), 0 until 4000)
      // Written entry by entry, and by a file.
      store.put(3, 1 until 40 by 2)
      store.commit()
      store.check(Seq(3), 0 until 4000)
      store.put(3, 41 until 4000 by 2, large(1, 300))
      val all = store.commit()
      store.check(Seq(3), 0 until 4100)
      store.put(3, 4000 until 4100)
      store.rollback(all)
      store.check(Seq(3), 0 until 4200)
      store.put(3, 4050 until 4200)
      store.remove(3, 0 until 100)
      store.commit()
      store.check(Seq(3), 0 until 4300)
      store.put(3, 0 until 50)
      store.remove(3, 3000 until 4000)
      store.commit()
      store.check(Seq(3), 0 until 4300)
    }
  }

  test("after a rescale, from files of other groups too, and in the operator group") {
    val storage = new MemoryStorage
    val groups = 0 to 8
    val all = filtered(storage) { store =>
      store.load(0)
      groups.foreach(group => store.put(group, group until 6000 by 3))
      store.commit()
    }
    val local = newLocalFolder()
    try Rescaling.run(storage, 0, location.store, 1, Seq(None), 2, () => "", local)
    finally local.close()
    for (partition <- 0 to 1) filtered(storage, 2, partition) { store =>
      val own = groups.slice(4 * partition, 4 * partition + 4) :+ 8
      store.load(1, all.filter { case ((_, group, _), _) => own.contains(group) })
      store.miss(own, 6000)
      assert(store.backend.memoryUsed > 2 * 2 * 2000, "no filters")
      store.check(own, 0 until 6000)
      store.put(own.head, 0 until 6000)
      store.commit()
      store.check(own, 0 until 6000)
    }
  }

  test("removals in run files are no keys of a filter") {
    val storage = new MemoryStorage
    val left = filtered(storage) { store =>
      store.load(0)
      store.put(3, 0 until 6000)
      store.commit()
      store.remove(3, 0 until 5000)
      store.commit()
    }
    filtered(storage) { store =>
      store.load(2, left)
      store.put(3, Seq(6000))
      store.commit()
      assert(store.miss(Seq(3), 1100) >= 2 * 1000)
      val before = store.backend.memoryUsed
      store.put(3, Seq(6001))
      store.commit()
      assert(store.backend.memoryUsed - before < 1000, "a filter was full of removed keys")
      store.check(Seq(3), 0 until 6100)
      store.put(3, 0 until 100)
      store.commit()
      store.check(Seq(3), 0 until 6100)
    }
  }

  test("whatever is changed, committed, undone and loaded, in any order") {
    for (seed <- 1 to 3) {
      val random = new Random(seed)
      val storage = new MemoryStorage
      var store = newStore(storage, settings)
      var at = new Filtered(store)
      at.load(0)
      // From version 1 on.
      val versions = mutable.Buffer(at.commit())
      try
        for (_ <- 1 to 50) {
          val group = random.nextInt(3)
          val numbers = random.nextInt(100) until 600 by 1 + random.nextInt(4)
          random.nextInt(9) match {
            case 0 | 1 | 2 =>
              at.put(group, numbers.take(1 << random.nextInt(10)), large(random.nextInt(), 200))
            case 3 => at.remove(group, numbers.take(1 << random.nextInt(10)))
            case 4 | 5 => versions += at.commit()
            case 6 => at.rollback(versions.last)
            case 7 => at.miss(0 until 3, 400)
            case 8 =>
              if (random.nextBoolean()) {
                store.close()
                store = newStore(storage, settings)
                at = new Filtered(store)
              }
              versions.takeInPlace((versions.size - random.nextInt(2)).max(1))
              at.load(versions.size.toLong, versions.last)
          }
          at.check(0 until 3, 0 until 650)
        }
      finally store.close()
    }
  }

  test("a family that is dropped, and brought back or made again") {
    val local = newLocalFolder()
    val backend = rocksDB.create(8, () => local.newFolder())
    val point = StateFamily(0, "p", Layout.Point)
    def get(n: Int) = Option(backend.get(0, 1, bytes(key(n)))).map(new String(_, "UTF-8"))
    def put(numbers: Iterable[Int], value: String): Unit =
      numbers.foreach(n => backend.put(0, 1, bytes(key(n)), bytes(value)))
    try {
      backend.register(point)
      put(0 until 1000, "old")
      backend.changesCommitted()
      val before = backend.memoryUsed
      (1000 until 3000).foreach(n => assert(get(n).isEmpty))
      val withFilter = backend.memoryUsed
      assert(withFilter - before >= 1000)
      backend.drop(0)
      backend.rollback()
      assert((0 until 1000).forall(get(_).contains("old")) && backend.memoryUsed == withFilter)
      backend.drop(0)
      backend.changesCommitted()
      backend.register(point)
      assert((0 until 3000).forall(get(_).isEmpty))
      put(500 until 1500, "new")
      backend.changesCommitted()
      (2000 until 4000).foreach(n => assert(get(n).isEmpty))
      assert((500 until 1500).forall(get(_).contains("new")) && get(0).isEmpty)
      // Entries that are loaded one by one, of which a filter was not told.
      val loader = backend.loader((_, _) => 0)
      (2000 until 2100).foreach(n => loader.add(0, 1, bytes(key(n)), bytes("loaded")))
      backend.rollback()
      assert((2000 until 2100).forall(get(_).contains("loaded")))
    } finally {
      backend.close()
      local.close()
    }
  }

  test("the memory is a bound, which all stores share; what has no filter is found too") {
    val storages = Seq.fill(3)(new MemoryStorage)
    val stores = storages.map(newStore(_, settings)).map(new Filtered(_))
    try {
      stores.foreach { store =>
        store.load(0)
        (0 until 8).foreach(group => store.put(group, 0 until 10000 by 2))
        store.commit()
      }
      def total = stores.map(_.backend.memoryUsed).sum
      val before = total
      stores.foreach(store => store.miss(0 until 8, 12000))
      val taken = total - before
      assert(taken <= mostBytes && taken > mostBytes - 8000)
      stores.foreach(_.check(0 until 8, 0 until 10000))
      stores.head.store.close()
      // What the first had is free for the others.
      stores.tail.foreach(store => store.miss(0 until 8, 12000))
      stores.tail.foreach(_.check(0 until 8, 0 until 10000))
    } finally stores.foreach(_.store.close())
  }

  test("stores with few keys take nothing for filters") {
    val stores = Seq.fill(20)(new Filtered(newStore(new MemoryStorage, settings)))
    try
      stores.foreach { store =>
        store.load(0)
        (0 until 8).foreach(group => store.put(group, 0 until 50))
        store.commit()
        assert(store.miss(0 until 8, 200) == 0)
      }
    finally stores.foreach(_.store.close())
  }
}
