package keystate.backend.auto

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.auto.Placement._

/** Reports of stores in any order, against rules that are written down one by one. */
class PlacementSuite extends AnyFunSuite {
  private type Stores = Map[Int, Store]

  private def bytesAt(stores: Stores, places: Place*): Long =
    stores.values.filter(store => places.contains(store.place)).map(_.bytes).sum

  /** Takes them out one by one, the largest first, until the rest is small enough. */
  private def whoStays(stores: Stores, share: Long): Set[Int] = {
    var stays = stores.filter { case (_, s) => s.place == Heap || s.place == Returning }
    if (stays.values.map(_.bytes).sum > share)
      while (stays.values.map(_.bytes).sum * 10 > share * 8) stays -= stays.maxBy(_._2.bytes)._1
    stays.keySet
  }

  test("random reports of random stores") {
    val seed = System.nanoTime
    var left, returned = 0
    for (round <- 0 until 200) withClue(s"seed $seed, round $round: ") {
      val random = new Random(seed + round)
      val share = 1L + random.nextInt(1000)
      var placement = Placement[Int]()
      for (_ <- 1 to 200) {
        val store = random.nextInt(1 + random.nextInt(12))
        // Sizes of their own, so that there is one largest store.
        val bytes = random.nextInt(if (random.nextInt(10) < 7) 3 else 60) * 12L + store
        val before = placement.stores
        random.nextInt(8) match {
          case 0 =>
            placement = placement.without(store)
            assert(placement.stores == before - store)
          case 1 =>
            // It moves.
            before.get(store).foreach {
              case Store(Leaving, bytes) => placement = placement.inRocksDB(store, bytes, share)
              case Store(Returning, bytes) => placement = placement.onHeap(store, bytes, share)
              case _ =>
            }
          case _ if before.get(store).exists(s => s.place == RocksDB || s.place == Returning) =>
            placement = placement.inRocksDB(store, bytes, share)
            val others = bytesAt(before - store, Heap, Leaving, Returning)
            val back = (others + bytes) * 2 < share
            assert(placement.stores(store) == Store(if (back) Returning else RocksDB, bytes))
            assert(placement.stores - store == before - store)
            if (back) returned += 1
          case _ =>
            placement = placement.onHeap(store, bytes, share)
            val stayed = before.get(store).forall(_.place != Leaving)
            val reported =
              before.updated(store, Store(if (stayed) Heap else Leaving, bytes))
            val stays = whoStays(reported, share)
            val expected = reported.map {
              case (id, Store(Heap, bytes)) if !stays(id) => id -> Store(Leaving, bytes)
              case (id, Store(Returning, bytes)) if !stays(id) => id -> Store(RocksDB, bytes)
              case other => other
            }
            assert(placement.stores == expected)
            left += expected.count(_._2.place == Leaving)
        }
        assert(placement.planned <= share)
        assert(placement.held == bytesAt(placement.stores, Heap, Leaving))
      }
    }
    assert(left > 100 && returned > 100)
  }

  test("a large store does not begin on a heap that is full, and a small one does") {
    val heap = Placement[Int]().onHeap(1, 400, 1000).onHeap(2, 100, 1000)
    assert(!heap.beginsInRocksDB(3, 500, 1000))
    assert(heap.beginsInRocksDB(3, 501, 1000))
    val full = heap.onHeap(3, 450, 1000)
    assert(!full.beginsInRocksDB(4, 100, 1000))
    assert(full.beginsInRocksDB(4, 300, 1000))
    // Its own bytes of before do not count, nor does what is in RocksDB.
    assert(!full.beginsInRocksDB(3, 500, 1000))
    assert(!Placement[Int]().inRocksDB(1, 5000, 1000).beginsInRocksDB(2, 1000, 1000))
    assert(Placement[Int]().beginsInRocksDB(1, 1001, 1000))
  }

  test("a store that came back stays until state has doubled") {
    val back = Placement[Int]().inRocksDB(1, 480, 1000)
    assert(back.placeOf(1).contains(Returning))
    for (bytes <- Seq(480L, 700L, 1000L))
      assert(back.onHeap(1, bytes, 1000).placeOf(1).contains(Heap))
    val left = back.onHeap(1, 1001, 1000)
    assert(left.placeOf(1).contains(Leaving))
    for (bytes <- Seq(1001L, 700L, 500L))
      assert(left.inRocksDB(1, bytes, 1000).placeOf(1).contains(RocksDB))
  }
}
