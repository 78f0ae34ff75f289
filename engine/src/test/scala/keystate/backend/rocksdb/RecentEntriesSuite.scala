package keystate.backend.rocksdb

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.{HeapBudget, Layout}

class RecentEntriesSuite extends AnyFunSuite {
  private def key(i: Int) = Array[Byte](i.toByte)

  private def changes(written: Map[Int, Option[Int]]): Array[GroupChanges] = {
    val group = GroupChanges(Layout.Point)
    written.foreach { case (entry, value) =>
      group.put(key(entry), new PendingChange(value.map(key).orNull, existed = true))
    }
    Array(null, group)
  }

  test("what it knows is what was written last, however much memory there is") {
    val random = new Random(1)
    for (budget <- Seq(0L, 10L, 25L, 1000L)) {
      val memory = new HeapBudget(budget)
      val recent = new RecentEntries(memory.share())
      val database = mutable.Map.empty[Int, Option[Int]]
      var known = 0
      for (_ <- 1 to 500) {
        val written =
          Seq.fill(random.nextInt(4))(random.nextInt(9) -> Option(random.nextInt(99))).toMap ++
            Option.when(random.nextBoolean())(random.nextInt(9) -> None)
        recent.add(changes(written), 1L + random.nextInt(20))
        database ++= written
        for (entry <- 0 until 9) {
          val change = recent.get(1, key(entry))
          if (change != null) {
            known += 1
            assert(Option(change.value).map(_.head.toInt) == database(entry))
          }
          assert(recent.get(0, key(entry)) == null)
          assert(recent.get(2, key(entry)) == null)
        }
      }
      assert((known > 0) == (budget > 0))
      recent.clear()
      assert((0 until 9).forall(entry => recent.get(1, key(entry)) == null))
      assert(memory.share().take(budget), "memory was kept")
    }
  }

  test("a key that was only looked up is not known") {
    val group = GroupChanges(Layout.Point)
    group.put(key(1), PendingChange.Present)
    group.put(key(2), PendingChange.Absent)
    val recent = new RecentEntries(new HeapBudget(100).share())
    recent.add(Array(group), 10)
    assert(recent.get(0, key(1)) == null && recent.get(0, key(2)) == null)
  }
}
