package keystate.backend.rocksdb

import java.util.{Arrays, TreeMap}

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.BytewiseOrder

class SortedChangesSuite extends AnyFunSuite {
  private type Model = TreeMap[Array[Byte], PendingChange]

  private def model(): Model = new Model(BytewiseOrder.comparator)

  private def read(cursor: ChangesCursor): Seq[(Seq[Byte], PendingChange)] = {
    val found = mutable.Buffer.empty[(Seq[Byte], PendingChange)]
    while (cursor.key != null) {
      found += cursor.key.toSeq -> cursor.change
      cursor.advance()
    }
    found.toSeq
  }

  private def expected(
      model: Model,
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): Seq[(Seq[Byte], PendingChange)] = {
    val found = mutable.Buffer.empty[(Seq[Byte], PendingChange)]
    val range = BytewiseOrder.range(model, start, end, reverse)
    if (range != null) range.forEach((key, change) => found += key.toSeq -> change)
    found.toSeq
  }

  test("reads agree with a sorted map, whatever is read and changed in between") {
    val seed = System.nanoTime
    info(s"seed $seed")
    val random = new Random(seed)
    for (_ <- 1 to 300) {
      val changes = new SortedChanges
      val plain = model()
      // Few bytes, of them -1 too: after a beginning that ends with it comes a shorter one.
      def key(most: Int) =
        Array.fill(random.nextInt(most + 1))((random.nextInt(4) - 1).toByte)
      val readings = 1 + random.nextInt(40)
      for (_ <- 1 to 200) random.nextInt(readings + 4) match {
        case 0 =>
          val start = key(3)
          val end = BytewiseOrder.after(start)
          val reverse = random.nextInt(4) == 0
          assert(read(changes.range(start, end, reverse)) == expected(plain, start, end, reverse))
        case 1 if random.nextInt(4) == 0 =>
          val start = if (random.nextBoolean()) null else key(5)
          val end = if (random.nextBoolean()) null else key(5)
          val reverse = random.nextBoolean()
          assert(read(changes.range(start, end, reverse)) == expected(plain, start, end, reverse))
        case 2 =>
          val gone = key(5)
          changes.remove(gone)
          plain.remove(gone)
        case 3 => assert(read(changes.all) == expected(plain, null, null, reverse = false))
        case _ =>
          val made = key(5)
          val change = new PendingChange(
            if (random.nextInt(4) == 0) null else made,
            existed = random.nextBoolean()
          )
          changes.put(made, change)
          plain.put(made, change)
          assert(changes.get(made) eq change)
          assert(changes.get(made :+ 9.toByte) == null)
      }
      val news = mutable.Set.empty[Seq[Byte]]
      changes.foreachNew(key => if (!news.add(key.toSeq)) fail("given twice"))
      val fresh =
        expected(plain, null, null, reverse = false).filter(each => PendingChange.isNew(each._2))
      assert(news == fresh.map(_._1).toSet)
    }
  }

  test("a cursor shows what became of the changes that it has not given yet") {
    for (bounds <- Seq((null, null), (Array[Byte](0), Array[Byte](9)))) {
      val changes = new SortedChanges
      (1 to 4).foreach(i => changes.put(Array(i.toByte), new PendingChange(Array(1), true)))
      val cursor = changes.range(bounds._1, bounds._2, reverse = false)
      assert(cursor.key.toSeq == Seq(1))
      // The second one asks the map for its order.
      changes.range(Array(1), Array(3), reverse = true)
      changes.put(Array(2), new PendingChange(null, true))
      changes.remove(Array(3))
      cursor.advance()
      assert(cursor.key.toSeq == Seq(2) && cursor.change.value == null)
      cursor.advance()
      val third = if (cursor.key.toSeq == Seq(3)) cursor.change.value else null
      assert(third == null)
      while (cursor.key.head < 4) cursor.advance()
      assert(Arrays.equals(cursor.change.value, Array[Byte](1)))
      cursor.advance()
      assert(cursor.key == null)
    }
  }

  test("many beginnings of one length, and of more lengths than are noted") {
    val changes = new SortedChanges
    def key(i: Int, length: Int) = Array.tabulate(length)(at => (i >> (at * 4)).toByte)
    def has(start: Array[Byte]): Boolean =
      changes.range(start, BytewiseOrder.after(start), reverse = false).key != null
    for (i <- 1 to 5000) {
      assert(!has(key(i, 6)), i)
      changes.put(key(i, 6) :+ 1.toByte, new PendingChange(Array(1), false))
    }
    for (length <- 7 to 12) assert(!has(key(1, length) :+ 2.toByte))
    assert((1 to 5000).forall(i => has(key(i, 6))))
  }
}
