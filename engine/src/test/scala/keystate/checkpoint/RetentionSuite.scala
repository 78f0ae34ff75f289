package keystate.checkpoint

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.files.{CheckpointStorage, StoreLocation}
import keystate.keygroup.KeyGroups

/** However many batches and rescales a query has run, a restart from any retained batch works. */
class RetentionSuite extends AnyFunSuite with StoreFixture {
  private val maxParallelism = 16
  private val retained = 8

  private case class Batch(ids: Seq[Option[String]], content: Content)

  for (format <- Seq("v1", "v2"))
    test(s"$format: every retained version loads in the layouts it was kept in") {
      val seed = System.nanoTime
      info(s"seed $seed")
      val random = new Random(seed)
      val storage = new MemoryStorage
      def idOf(): Option[String] = if (format == "v2") newId() else None
      // A version has two layouts when the query was rescaled at it.
      val history = mutable.Map.empty[Long, Seq[Batch]].withDefaultValue(Nil)
      var model: Content = Map.empty
      var ids = Seq.fill(2)(Option.empty[String])
      var stores = open(storage, 2)
      var mostFiles = 0

      def checkRetained(version: Long): Unit = for {
        old <- Math.max(1, version - retained) to version
        batch <- history(old)
      } {
        val readers = open(storage, batch.ids.size)
        try {
          readers.zip(batch.ids).foreach { case (store, id) => store.load(old, id) }
          val restored = readers.map(content).fold(Map.empty)(_ ++ _)
          assert(restored == batch.content, s"version $old of ${batch.ids.size} partitions")
        } finally readers.foreach(_.close())
      }

      try
        (1L to 200).foreach { version =>
          stores.zip(ids).foreach { case (store, id) =>
            store.load(version - 1, id)
            register(store)
          }
          (0 until 6).foreach { _ =>
            val (group, key) = (random.nextInt(maxParallelism), s"${random.nextInt(30)}")
            val value =
              if (random.nextInt(3) == 0) null
              else large(random.nextLong(), if (random.nextInt(3) == 0) 70000 else 100)
            change(
              stores(KeyGroups.subtaskOf(group, stores.size, maxParallelism)),
              "p",
              group,
              key,
              value
            )
            val entry = ("p", group, key)
            model = if (value == null) model - entry else model + (entry -> value)
          }
          ids = stores.map { store =>
            val id = idOf()
            store.commit(id)
            id
          }
          history(version) = Seq(Batch(ids, model))
          stores.foreach(_.maintain())
          mostFiles = Math.max(mostFiles, storage.paths.count(_.endsWith(".keystate")))
          if (version % 50 == 0) {
            stores.foreach(_.close())
            val local = newLocalFolder()
            val renamed = Rescaling.run(
              storage,
              0,
              StoreLocation.DefaultStore,
              version,
              ids,
              1 + random.nextInt(4),
              () => newId().get,
              local
            )
            local.close()
            ids = if (format == "v2") renamed else renamed.map(_ => None)
            history(version) :+= Batch(ids, model)
            checkRetained(version)
            stores = open(storage, ids.size)
            stores.foreach(_.maintain())
          }
          if (version % 25 == 1) checkRetained(version)
        }
      finally stores.foreach(_.close())
      checkRetained(200)
      // Of at most 4 partitions: the retained ones, one more, and those that wait to be deleted
      // together; and what is left in folders of partitions that are gone.
      assert(mostFiles <= 8 * (retained + 2 + 3 + 2), s"$mostFiles version files")
      assert(storage.paths.count(_.endsWith(".keystate")) < 200)
      assert(leftBehind.isEmpty)
    }

  private def open(storage: CheckpointStorage, parallelism: Int): Seq[VersionedStore] =
    (0 until parallelism).map { partition =>
      newStore(
        storage,
        StoreSettings(Some(maxParallelism), Some(parallelism), None, retained, 3),
        StoreLocation(0, partition, StoreLocation.DefaultStore)
      )
    }
}
