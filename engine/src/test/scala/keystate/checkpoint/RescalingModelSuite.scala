package keystate.checkpoint

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.files.StoreLocation
import keystate.keygroup.KeyGroups
import keystate.version.{EntryCounts, VersionFile}

/** A partitioned operator that commits, is maintained, restarts and rescales, against a plain map. */
class RescalingModelSuite extends AnyFunSuite with StoreFixture {
  private val maxParallelism = 32
  private val atOnce = StoreSettings(
    Some(maxParallelism),
    minVersionsToRetain = 3,
    minVersionsToDelete = 1,
    sectionBytes = 4000
  )
  private val onDemand = atOnce.copy(onDemandBytes = 0, pieceEntries = 30)

  private val rounds = if (sys.env.contains("SLOW")) 16 else 1

  for (format <- Seq("v1", "v2"))
    test(s"$format: state is the same over any sequence of parallelisms") {
      val seed = System.nanoTime
      info(s"seed $seed")
      withClue(s"seed $seed: ")((0 until rounds).foreach { round =>
        run(seed + round, format == "v2", if ((seed + round) % 2 == 0) atOnce else onDemand)
      })
      assert(leftBehind.isEmpty)
    }

  test("entries are not counted to rescale, for the old versions have their numbers by group") {
    val storage = new MemoryStorage
    val old = newStore(storage, StoreSettings(Some(4), Some(1)), StoreLocation(0, 0, "default"))
    try {
      old.load(0, None)
      register(old)
      Seq(0, 1, 1, 3).zipWithIndex.foreach { case (group, i) =>
        change(old, "p", group, s"$i", "1")
      }
      change(old, "g", 2, "a", "1")
      change(old, "p", 4, "rule", "of the subtask")
      old.commit(None)
    } finally old.close()
    rescale(storage, 1, Seq(None), 2)
    val counts = (0 until 2).map { partition =>
      VersionFile.read(storage, StoreLocation(0, partition, "default"), 1, Some("of2")).entryCounts
    }
    assert(counts.map(_(0)) == Seq(EntryCounts(Vector(1, 2, 1)), EntryCounts(Vector(0, 1, 1))))
    assert(counts.map(_(1)) == Seq(EntryCounts(Vector(0, 0, 0)), EntryCounts(Vector(1, 0, 0))))
  }

  test("a subtask has the broadcast state of one old subtask, not of another's files") {
    val storage = new MemoryStorage
    def open(partition: Int, parallelism: Int) = {
      val settings = StoreSettings(Some(maxParallelism), Some(parallelism))
      newStore(storage, settings, StoreLocation(0, partition, StoreLocation.DefaultStore))
    }
    def commit(store: VersionedStore)(changes: => Unit): Unit = {
      store.load(Option.when(store.isLoaded)(store.manifest.version).getOrElse(0L), None)
      register(store)
      changes
      store.commit(None)
      ()
    }
    val old = (0 until 4).map(open(_, 4))
    try
      old.zipWithIndex.foreach { case (store, partition) =>
        // The old value is in a file in the second subtask and inline in the first.
        commit(store) {
          change(store, "p", maxParallelism, "rule", "old")
          if (partition == 1) change(store, "p", 8, "key", large(1))
        }
        commit(store)(change(store, "p", maxParallelism, "rule", "new"))
      }
    finally old.foreach(_.close())
    rescale(storage, 2, Seq.fill(4)(None), 2)
    val store = open(0, 2)
    try {
      store.load(2, None)
      register(store)
      assert(operatorContent(store) == Map("rule" -> "new"))
    } finally store.close()
  }

  test(
    "v1: a first batch that is run again counts, not a rescale or a late attempt of its first run"
  ) {
    val storage = new MemoryStorage
    def commit(partitions: Int, value: String): Unit = (0 until partitions).foreach { partition =>
      withPartition(storage, partition, partitions, 0) { store =>
        change(store, "p", store.manifest.partitioning.groups.first, "key", value)
        store.commit(None)
      }
    }
    commit(2, "pending")
    Rescaling.runEmpty(storage, 0, StoreLocation.DefaultStore, maxParallelism, 3)
    rescale(storage, 1, Seq(None, None), 3)
    commit(3, "again")
    commit(2, "late")
    (0 until 3).foreach { partition =>
      withPartition(storage, partition, 3, 1) { store =>
        assert(content(store).values.toSet == Set("again"))
      }
    }
  }

  test("v1: a pending version that was rescaled is none while its batch runs again") {
    val storage = new MemoryStorage
    def commit(partition: Int, partitions: Int, version: Long): Unit =
      withPartition(storage, partition, partitions, version - 1) { store =>
        change(store, "p", store.manifest.partitioning.groups.first, s"$version", "1")
        store.commit(None)
      }
    def complete = Seq(1, 2).filter { partitions =>
      Rescaling.isComplete(storage, 0, StoreLocation.DefaultStore, 2, partitions)
    }
    commit(0, 1, 1)
    commit(0, 1, 2)
    assert(complete == Seq(1))
    Seq(1, 2).foreach(version => rescale(storage, version.toLong, Seq(None), 2))
    assert(complete == Seq(1, 2))
    commit(0, 2, 2)
    assert(complete == Seq(1), "half of it was made from another version")
    commit(1, 2, 2)
    assert(complete == Seq(1, 2))
  }

  /** One of so many partitions, with a version of format v1. */
  private def withPartition(storage: MemoryStorage, partition: Int, partitions: Int, version: Long)(
      body: VersionedStore => Any
  ): Unit = {
    val settings = StoreSettings(Some(maxParallelism), Some(partitions))
    val at = StoreLocation(0, partition, StoreLocation.DefaultStore)
    val store = newStore(storage, settings, at)
    try {
      store.load(version, None)
      register(store)
      body(store): Unit
    } finally store.close()
  }

  private def run(seed: Long, withIds: Boolean, settings: StoreSettings): Unit = {
    val random = new Random(seed)
    val storage = new MemoryStorage
    var model: Content = Map.empty
    // What each partition has in its operator group: the same.
    var broadcast = Map.empty[String, String]
    var version = 0L
    var ids = Seq.fill(1 + random.nextInt(6))(Option.empty[String])

    def open(parallelism: Int): Seq[VersionedStore] = (0 until parallelism).map { partition =>
      newStore(
        storage,
        settings.copy(parallelism = Some(parallelism)),
        StoreLocation(0, partition, StoreLocation.DefaultStore)
      )
    }
    var stores = open(ids.size)

    def load(): Any = {
      stores.zip(ids).foreach { case (store, id) =>
        store.load(version, id)
        register(store)
      }
      // They are counted before they are read: what is loaded on demand is not loaded by that.
      val counted = stores.flatMap { store =>
        val counts = for {
          family <- store.families
          group <- 0 to maxParallelism
          count = store.backend.count(family.id, group) if count > 0
        } yield (family.name, group) -> count
        assert(
          store.families.map(family => store.backend.count(family.id)).sum == counts.map(_._2).sum
        )
        counts
      }
      val own = model.keySet.groupMapReduce(key => (key._1, key._2))(_ => 1L)(_ + _)
      val operator = broadcast.headOption.toSeq.flatMap { _ =>
        stores.map(_ => ("p", maxParallelism) -> broadcast.size.toLong)
      }
      assert(counted.sorted == (own.toSeq ++ operator).sorted)
      stores.foreach { store =>
        assert(operatorContent(store) == broadcast, s"version $version of ${ids.size} partitions")
      }
      if (random.nextBoolean())
        assert(stores.flatMap(content).toMap == model, s"version $version of ${ids.size}")
    }

    def batch(): Unit = {
      load()
      (0 until (if (random.nextInt(4) == 0) 2000 else random.nextInt(50))).foreach { _ =>
        val (group, key) = (random.nextInt(maxParallelism), s"${random.nextInt(300)}")
        val family = if (random.nextBoolean()) "p" else "g"
        val store = stores(KeyGroups.subtaskOf(group, stores.size, maxParallelism))
        val value =
          if (random.nextInt(3) == 0) null else large(random.nextLong(), random.nextInt(200))
        change(store, family, group, key, value)
        val entry = (family, group, key)
        model = if (value == null) model - entry else model + (entry -> value)
      }
      (0 until random.nextInt(4)).foreach { _ =>
        val key = s"${random.nextInt(10)}"
        val value = if (random.nextInt(3) == 0) null else large(random.nextLong(), 50)
        stores.foreach(change(_, "p", maxParallelism, key, value))
        broadcast = if (value == null) broadcast - key else broadcast + (key -> value)
      }
      ids = stores.map { store =>
        val id = if (withIds) newId() else None
        store.commit(id)
        id
      }
      version += 1
    }

    try
      (1 to 40).foreach { _ =>
        random.nextInt(6) match {
          case 0 if version > 0 =>
            val parallelism = 1 + random.nextInt(8)
            stores.foreach(_.close())
            // A rescale that was cut short, perhaps to another parallelism, comes before.
            if (random.nextBoolean()) rescale(storage, version, ids, 1 + random.nextInt(8))
            ids = rescale(storage, version, ids, parallelism)
            stores = open(parallelism)
            load()
          case 1 =>
            stores.foreach(_.close())
            stores = open(ids.size)
          case 2 => stores.foreach(_.maintain())
          case _ => batch()
        }
      }
    finally stores.foreach(_.close())
    stores = open(ids.size)
    try {
      load()
      assert(stores.flatMap(content).toMap == model)
    } finally stores.foreach(_.close())
    ()
  }

  private def operatorContent(store: VersionedStore): Map[String, String] = {
    val group = KeyGroups.operatorGroup(maxParallelism)
    val entries = store.backend.scan(store.family("p").get.id, group, null, null)
    try entries.map(e => new String(e.key, "UTF-8") -> new String(e.value, "UTF-8")).toMap
    finally entries.close()
  }
}
