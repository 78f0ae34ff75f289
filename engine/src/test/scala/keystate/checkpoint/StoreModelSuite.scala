package keystate.checkpoint

import java.io.IOException

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/** Random operations, commits, failures, reloads and maintenance against a plain map. */
class StoreModelSuite extends AnyFunSuite with StoreFixture {
  private val atOnce = StoreSettings(minVersionsToRetain = 5, minVersionsToDelete = 2)
  private val onDemand = atOnce.copy(onDemandBytes = 0, pieceEntries = 30)

  private val rounds = if (sys.env.contains("SLOW")) 16 else 2

  for (format <- Seq("v1", "v2"))
    test(s"$format: behaves like a map with versions") {
      val seed = System.nanoTime
      info(s"seed $seed")
      val failures =
        withClue(s"seed $seed: ")((0 until rounds).map { round =>
          run(seed + round, format == "v2", if (round % 2 == 0) atOnce else onDemand)
        }.sum)
      assert(failures > 0, "no failure was tried")
      assert(leftBehind.isEmpty)
    }

  /** Returns how many failures were injected. */
  private def run(seed: Long, withIds: Boolean, settings: StoreSettings): Int = {
    val random = new Random(seed)
    val storage = new MemoryStorage
    // The committed versions that must be there: version 0, and the newest.
    val history = mutable.Map[Long, (Option[String], Content)](0L -> ((None, Map.empty)))
    var newest = 0L
    var stores = Vector.fill(2)(newStore(storage, settings))
    var injected = 0

    def newIdIf() = if (withIds) newId() else None

    def randomChanges(store: VersionedStore, from: Content): Content = {
      val size = if (random.nextInt(8) == 0) 3000 else random.nextInt(40)
      (0 until size).foldLeft(from) { (model, _) =>
        val family = if (random.nextBoolean()) "p" else "g"
        val (group, key) = (random.nextInt(16), s"${random.nextInt(400)}")
        random.nextInt(3) match {
          case 0 =>
            change(store, family, group, key, null)
            model - ((family, group, key))
          case _ =>
            val value = random.nextString(random.nextInt(30))
            change(store, family, group, key, value)
            // What UTF-8 makes of it.
            model + ((family, group, key) -> new String(bytes(value), "UTF-8"))
        }
      }
    }

    def load(store: VersionedStore, version: Long): Content = {
      val (id, model) = history(version)
      store.load(version, id)
      register(store)
      // Else most pieces of a state that is loaded on demand are not loaded yet.
      if (random.nextBoolean()) assert(content(store) == model, s"version $version")
      model
    }

    try
      (1 to 60).foreach { _ =>
        val store = stores(random.nextInt(stores.size))
        random.nextInt(10) match {
          case 0 =>
            val model = load(store, newest)
            randomChanges(store, model)
            store.rollback()
            assert(content(store) == model)
          case 1 =>
            stores.foreach(_.close())
            stores = Vector.fill(2)(newStore(storage, settings))
          case 2 =>
            stores.foreach(_.maintain())
          case 3 =>
            val old = history.keys.filter(_ > newest - 5).toSeq
            if (old.nonEmpty) load(store, old(random.nextInt(old.size)))
          case 4 =>
            // A failing attempt, of which anything may remain.
            val model = load(store, newest)
            randomChanges(store, model)
            // With v1 it must fail: a second attempt's different content would be undefined.
            var steps = if (withIds) random.nextInt(8) else 1 + random.nextInt(4)
            storage.before = (_, _) => {
              steps -= 1
              if (steps == 0) {
                injected += 1
                throw new IOException("injected")
              }
            }
            try store.commit(newIdIf())
            catch { case _: IOException => }
            finally storage.before = (_, _) => ()
            if (store.isLoaded) store.rollback()
          case _ =>
            val model = randomChanges(store, load(store, newest))
            val id = newIdIf()
            store.commit(id)
            newest += 1
            history(newest) = (id, model)
            assert(content(store) == model)
        }
      }
    finally stores.foreach(_.close())
    withStore(storage)(load(_, newest))
    injected
  }
}
