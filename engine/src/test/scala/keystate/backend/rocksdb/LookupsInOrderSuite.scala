package keystate.backend.rocksdb

import java.util

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/** Lookups in the order of the entries, against a plain sorted map. */
class LookupsInOrderSuite extends AnyFunSuite {
  private val stored = new util.TreeMap[(Int, Int), String](Ordering[(Int, Int)])
  private var scans = 0
  private var steps = 0
  private var open = 0
  private var writes = 0L
  private var damaged: Option[Int] = None
  private var usedAfterFailure = false
  private var failsToOpen = false

  private final class Cursor(group: Int, from: Array[Byte]) extends StoredCursor {
    private val entries = stored.tailMap((group, number(from))).asScala.toSeq.iterator
    private var current: Option[((Int, Int), String)] = None
    if (failsToOpen) throw new java.io.IOException("no block can be read")
    open += 1
    advance()
    override def key: Array[Byte] = current.map { case ((_, n), _) => bytes(n) }.orNull
    override def value: Array[Byte] = current.get._2.getBytes
    private var hasFailed = false
    override def advance(): Unit = {
      if (hasFailed) usedAfterFailure = true
      steps += 1
      if (damaged.exists(n => current.exists(_._1._2 >= n))) {
        hasFailed = true
        throw new java.io.IOException("a block can't be read")
      }
      current = entries.nextOption().filter(_._1._1 == group)
    }
    override def close(): Unit = open -= 1
  }

  private def lookups() = new LookupsInOrder(
    (group, key) => {
      scans += 1
      new Cursor(group, key)
    },
    () => writes
  )

  private def bytes(n: Int) = java.nio.ByteBuffer.allocate(4).putInt(n).array
  private def number(key: Array[Byte]) = java.nio.ByteBuffer.wrap(key).getInt

  private def fill(groups: Int, keys: Int): Unit = {
    stored.clear()
    for (group <- 0 until groups; n <- 0 until keys) stored.put((group, 2 * n), s"$group $n")
    scans = 0
    steps = 0
  }

  /** Whether it was known without a lookup. */
  private def ask(lookups: LookupsInOrder, group: Int, n: Int): Boolean = {
    val found = lookups.find(group, bytes(n))
    val isKnown = found ne LookupsInOrder.LookItUp
    if (isKnown) {
      val expected = Option(stored.get((group, n)))
      assert(Option(found).map(new String(_)) == expected, s"$group $n")
    }
    isKnown
  }

  test("entries and gaps in order are known, with one scan for a group") {
    fill(groups = 3, keys = 1000)
    val inOrder = lookups()
    val known = for (group <- 0 to 2; n <- 0 until 2000) yield ask(inOrder, group, n)
    assert(known.count(!_) < 20 && scans == 3 && steps < 3100)
    inOrder.clear()
    assert(open == 0)
  }

  test("lookups by chance, and far between, are left alone") {
    fill(groups = 2, keys = 100000)
    val random = new Random(1)
    val byChance = lookups()
    (1 to 10000).foreach(_ => ask(byChance, random.nextInt(2), random.nextInt(200000)))
    assert(scans < 5)
    val farBetween = lookups()
    (0 until 200000 by 100).foreach(ask(farBetween, 0, _))
    assert(scans < 15)
    Seq(byChance, farBetween).foreach(_.clear())
    assert(open == 0)
  }

  test("it knows nothing of what was written since") {
    fill(groups = 1, keys = 1000)
    val inOrder = lookups()
    val random = new Random(2)
    var known = 0
    (0 until 2000).foreach { n =>
      if (random.nextInt(50) == 0) {
        stored.put((0, n + random.nextInt(3)), "new")
        stored.remove((0, n + 3 + random.nextInt(3)))
        writes += 1
      }
      if (ask(inOrder, 0, n)) known += 1
    }
    assert(known > 1000)
    inOrder.clear()
    assert(open == 0)
  }

  test("a cursor that fails is left, and the lookup tells whether its entry can be read") {
    fill(groups = 1, keys = 1000)
    val inOrder = lookups()
    damaged = Some(1000)
    try {
      val known = (0 until 2000).map(ask(inOrder, 0, _))
      assert(known.take(1000).count(identity) > 900 && known.last == false)
      assert(scans < 20 && open == 0 && !usedAfterFailure)
    } finally damaged = None
  }

  test("one that can't be opened is rarely tried again") {
    fill(groups = 1, keys = 1000)
    val inOrder = lookups()
    failsToOpen = true
    try assert((0 until 2000).forall(n => !ask(inOrder, 0, n)))
    finally failsToOpen = false
    assert(scans <= 2 && open == 0)
  }

  test("the same key may be asked for again, and one key of a group is not worth a cursor") {
    fill(groups = 200, keys = 10)
    val again = lookups()
    val known = for (group <- 0 to 9; n <- 0 until 20; _ <- 1 to 2) yield ask(again, group, n)
    assert(known.count(!_) < 30 && scans == 10)
    scans = 0
    val across = lookups()
    (0 until 200).foreach(ask(across, _, 4))
    assert(scans < 8)
    Seq(again, across).foreach(_.clear())
    assert(open == 0)
  }

  test("any lookups agree with the map") {
    val seed = System.nanoTime
    info(s"seed $seed")
    val random = new Random(seed)
    var known = 0
    (1 to 200).foreach { _ =>
      fill(groups = 3, keys = 1 + random.nextInt(60))
      val some = lookups()
      var at = (0, 0)
      (1 to 300).foreach { _ =>
        at =
          if (random.nextInt(40) == 0) (random.nextInt(3), random.nextInt(120))
          else if (random.nextInt(40) == 0) (Math.min(at._1 + 1, 2), 0)
          else (at._1, at._2 + random.nextInt(if (random.nextInt(9) == 0) 20 else 3))
        if (ask(some, at._1, at._2)) known += 1
        if (random.nextInt(100) == 0) some.clear()
      }
      some.clear()
      assert(open == 0)
    }
    assert(known > 50)
  }
}
