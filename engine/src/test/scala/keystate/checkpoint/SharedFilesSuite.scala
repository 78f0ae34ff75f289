package keystate.checkpoint

import org.scalatest.funsuite.AnyFunSuite

import keystate.files.StoreLocation
import keystate.version.{FileSource, Run, VersionFile, VersionFinder}

/** When files from before a rescale may go. */
class SharedFilesSuite extends AnyFunSuite with StoreFixture {
  private val K = 8

  /** An operator of which version 4, of 4 partitions, was given to 2; each version has a file. */
  private final class Rescaled(format: String) extends AutoCloseable {
    val storage = new MemoryStorage
    private var stores = open(4)
    private var ids = Seq.fill(4)(Option.empty[String])
    private var version = 0L
    (1 to 4).foreach(_ => batch())
    stores.foreach(_.close())
    val before: Set[String] = storage.paths.toSet
    rescale(2)

    def rescale(partitions: Int): Unit = {
      stores.foreach(_.close())
      val local = newLocalFolder()
      val name = StoreLocation.DefaultStore
      ids = Rescaling.run(storage, 0, name, version, ids, partitions, () => newId().get, local)
      local.close()
      stores = open(partitions)
    }

    /** A batch in these partitions, or in all. */
    def batch(in: Int*): Unit = {
      val chosen = if (in.isEmpty) stores.indices else in
      val next = ids.indices.map(_ => if (format == "v2") newId() else None)
      chosen.foreach { partition =>
        val store = stores(partition)
        store.load(version, ids(partition))
        register(store)
        change(
          store,
          "p",
          store.manifest.partitioning.groups.first,
          s"${version % 8}",
          large(version, 70000)
        )
        store.commit(next(partition))
      }
      ids = next
      version += 1
    }

    def batches(count: Int): Unit = (1 to count).foreach { _ =>
      batch()
      maintain()
    }

    def maintain(): Unit = stores.foreach(_.maintain())

    /** The runs of before that there still are. */
    def left: Set[String] = before.filter(path => storage.isRun(path) && storage.exists(path))

    /** As a late attempt does: the version again, made of other files. */
    def replace(version: Long, partition: Int, runs: Seq[Run]): Unit = {
      val at = location(partition)
      val manifest = VersionFinder.read(storage, at, version, None, Some(ids.size))
      VersionFile.write(storage, at, manifest.copy(runs = runs))
      ()
    }

    def runs(partition: Int): Seq[Run] = stores(partition).manifest.runs

    def load(version: Long, partition: Int): Content = {
      val store = newStore(storage, settings(ids.size), location(partition))
      try {
        store.load(version, None)
        content(store)
      } finally store.close()
    }

    def newest: Long = version

    private def settings(partitions: Int) =
      StoreSettings(Some(K), Some(partitions), minVersionsToRetain = 2, minVersionsToDelete = 1)

    private def location(partition: Int) =
      StoreLocation(0, partition, StoreLocation.DefaultStore)

    private def open(partitions: Int) =
      (0 until partitions).map(p => newStore(storage, settings(partitions), location(p)))

    override def close(): Unit = stores.foreach(_.close())
  }

  private def using(query: Rescaled)(body: Rescaled => Any): Unit =
    try {
      body(query)
      ()
    } finally query.close()

  for (format <- Seq("v1", "v2")) {
    test(s"$format: they go once nothing needs them, and those of partitions that are gone") {
      using(new Rescaled(format)) { query =>
        assert(query.left.size == 16)
        val strays = Seq("3/notes", "3/1.delta", "x/1-a.lz4")
        val temporary = "3/.4-a.lz4.0.tmp"
        (strays :+ temporary).foreach(query.storage(_) = Array[Byte](1))
        query.batches(4)
        assert(query.left.size == 16, "a restart may go back to before them")
        query.batches(20)
        assert(query.left.isEmpty)
        assert(query.storage.paths.filter(_.startsWith("2/")).isEmpty)
        assert(query.storage.paths.filter(_.startsWith("3/")).toSet == strays.take(2).toSet)
        assert(query.storage.exists(strays.last))
      }
    }

    test(s"$format: however often a query is rescaled, the number of files stays bounded") {
      using(new Rescaled(format)) { query =>
        val counts = for (partitions <- Seq.fill(6)(Seq(3, 4, 2)).flatten) yield {
          query.rescale(partitions)
          query.batches(8)
          query.storage.paths.size
        }
        assert(counts.drop(9).max <= counts.take(9).max, counts)
      }
    }

    test(s"$format: none goes while a partition is still at the version of the rescale") {
      using(new Rescaled(format)) { query =>
        (1 to 20).foreach { _ =>
          query.batch(0)
          query.maintain()
        }
        assert(query.left.size == 16)
      }
    }

    test(s"$format: none goes that only a rescale since then would read") {
      using(new Rescaled(format)) { query =>
        query.batches(3)
        query.rescale(3)
        query.batches(3)
        assert(query.left.size == 16, "the last rescale is still retained")
        query.batches(25)
        assert(query.left.isEmpty)
      }
    }

    test(s"$format: none goes while a version of before the rescale can't be told to be gone") {
      using(new Rescaled(format)) { query =>
        // As a rescale to more partitions leaves it that was begun and given up.
        query.batches(3)
        query.storage("5/20.keystate") = Array[Byte](1)
        query.batches(15)
        assert(query.left.nonEmpty)
        query.batches(10)
        assert(query.left.isEmpty)
      }
    }
  }

  for (format <- Seq("v1", "v2"))
    test(
      s"$format: what a rescale left that was given up goes, though the query was never rescaled"
    ) {
      val storage = new MemoryStorage
      val settings =
        StoreSettings(Some(K), Some(2), minVersionsToRetain = 2, minVersionsToDelete = 1)
      val stores = (0 until 2).map { partition =>
        newStore(storage, settings, StoreLocation(0, partition, StoreLocation.DefaultStore))
      }
      def batch(version: Long): Seq[Option[String]] = stores.map { store =>
        store.load(version, Option.when(version > 0)(store.manifest.id).flatten)
        register(store)
        change(
          store,
          "p",
          store.manifest.partitioning.groups.first,
          s"$version",
          large(version, 70000)
        )
        store.commit(if (format == "v2") newId() else None).id
      }
      def ofOthers = storage.paths.filterNot(path => path.startsWith("0/") || path.startsWith("1/"))
      try {
        (0L until 3).foreach(batch)
        rescale(storage, 4, batch(3), 4)
        storage("3/.4-a.lz4.0.tmp") = Array[Byte](1)
        assert(ofOthers.size == 3)
        (4L until 6).foreach(batch)
        stores.foreach(_.maintain())
        assert(ofOthers.size == 3, "it may go on yet")
        (6L until 12).foreach { version =>
          batch(version)
          stores.foreach(_.maintain())
        }
        assert(ofOthers.isEmpty)
      } finally stores.foreach(_.close())
    }

  test("v1: what a late attempt put in a version's place keeps the files that it lists") {
    using(new Rescaled("v1")) { query =>
      query.batches(1)
      val old = query.runs(1)
      query.batches(2)
      assert(query.runs(1) != old, "merged since")
      val replaced = query.newest
      query.replace(replaced, 1, old)
      query.batches(3)
      // Those of the other partition have gone.
      assert(
        query.left == old
          .map(_.source)
          .collect { case FileSource(path) => path }
          .toSet
          .intersect(query.before)
      )
      assert(query.left.nonEmpty && query.left.size < 16)
      assert(query.load(replaced, 1).nonEmpty)
      query.batches(3)
      assert(query.left.isEmpty)
    }
  }
}
