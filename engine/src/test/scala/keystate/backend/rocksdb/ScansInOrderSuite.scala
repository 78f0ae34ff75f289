package keystate.backend.rocksdb

import java.util

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/** Short scans in the order of the entries, against a plain sorted map. */
class ScansInOrderSuite extends AnyFunSuite {
  private val stored = new util.TreeMap[(Int, Int), String](Ordering[(Int, Int)])
  private var opened = 0
  private var seeks = 0
  private var steps = 0
  private var open = 0
  private var writes = 0L
  private var damaged: Option[Int] = None
  private var usedAfterFailure = false

  private final class Cursor(group: Int, from: Array[Byte]) extends ForwardCursor {
    private var current: Option[Int] = None
    private var hasFailed = false
    opened += 1
    open += 1
    moveTo(number(from), inclusive = true)

    override def key: Array[Byte] = current.map(bytes).orNull
    override def value: Array[Byte] = stored.get((group, current.get)).getBytes
    override def advance(): Unit = {
      steps += 1
      moveTo(current.get, inclusive = false)
    }
    override def close(): Unit = open -= 1

    override def goOnTo(target: Array[Byte], most: Int): Boolean = {
      var left = most
      while (current.exists(_ < number(target)) && left > 0) {
        advance()
        left -= 1
      }
      val enough = current.forall(_ >= number(target))
      if (!enough) {
        seeks += 1
        moveTo(number(target), inclusive = true)
      }
      enough
    }

    private def moveTo(n: Int, inclusive: Boolean): Unit = {
      if (hasFailed) usedAfterFailure = true
      val next = stored.tailMap((group, n), inclusive).asScala.headOption.map(_._1)
      current = next.collect { case (`group`, found) => found }
      if (damaged.exists(n => current.exists(_ >= n))) {
        hasFailed = true
        throw new java.io.IOException("a block can't be read")
      }
    }
  }

  private def scans() = new ScansInOrder((group, key) => new Cursor(group, key), () => writes)

  private def bytes(n: Int) = java.nio.ByteBuffer.allocate(4).putInt(n).array
  private def number(key: Array[Byte]) = java.nio.ByteBuffer.wrap(key).getInt

  private def fill(groups: Int, keys: Int): Unit = {
    stored.clear()
    for (group <- 0 until groups; n <- 0 until keys) stored.put((group, 2 * n), s"$group $n")
    opened = 0
    seeks = 0
    steps = 0
  }

  /** Whether the entries from `from` until before `until` were known. */
  private def ask(scans: ScansInOrder, group: Int, from: Int, until: Int): Boolean = {
    val found = scans.find(group, bytes(from), bytes(until))
    if (found != null) {
      val cursor = found.cursor
      val shown = Iterator
        .continually(cursor)
        .takeWhile(_.key != null)
        .map { at =>
          val entry = (group, number(at.key)) -> new String(at.value)
          at.advance()
          entry
        }
        .toSeq
      assert(shown == stored.subMap((group, from), (group, until)).asScala.toSeq)
      assert(found.group == group && number(found.start) == from && number(found.end) == until)
    }
    found != null
  }

  test("scans in the order of each group, by turns, need one seek for a group") {
    fill(groups = 20, keys = 1000)
    val inOrder = scans()
    val known =
      for (n <- 0 until 2000 by 5; group <- 0 until 20) yield ask(inOrder, group, n, n + 4)
    assert(known.count(!_) < 20 * 6 && opened == 20 && seeks == 0)
    assert(steps < 20 * 1100)
    inOrder.clear()
    assert(open == 0)
  }

  test("where ranges are far from each other, cursors seek, and steps are rarely tried") {
    fill(groups = 1, keys = 100000)
    val sparse = scans()
    (0 until 200000 by 200).foreach(n => ask(sparse, 0, n, n + 2))
    assert(opened == 1 && seeks > 900 && steps < 6000)
    // Closer again: steps are enough.
    seeks = 0
    fill(groups = 1, keys = 200000)
    (200000 until 300000 by 10).foreach(n => ask(sparse, 0, n, n + 2))
    assert(seeks < 200)
    sparse.clear()
    assert(open == 0)
  }

  test("scans by chance are left alone") {
    fill(groups = 2, keys = 100000)
    val random = new Random(1)
    val byChance = scans()
    val known = (1 to 20000).count { _ =>
      val n = random.nextInt(200000)
      ask(byChance, random.nextInt(2), n, n + 3)
    }
    assert(known < 100)
    byChance.clear()
    assert(open == 0)
  }

  test("ranges of many entries are read by scans of their own") {
    fill(groups = 1, keys = 100000)
    val long = scans()
    (0 until 200000 by 1000).foreach(n => ask(long, 0, n, n + 900))
    assert(opened < 9 && steps < 1000)
    long.clear()
    // One among many small ones does little harm.
    fill(groups = 1, keys = 100000)
    val mixed = scans()
    val known = (0 until 100000 by 2).count { n =>
      if (n % 1000 == 0) ask(mixed, 0, n, n + 900)
      n % 1000 >= 900 && ask(mixed, 0, n, n + 2)
    }
    assert(known > 4000)
    mixed.clear()
    assert(open == 0)
  }

  test("there are no more cursors than some") {
    fill(groups = 1000, keys = 20)
    val many = scans()
    for (n <- 0 until 40 by 2; group <- 0 until 1000) ask(many, group, n, n + 1)
    assert(open == 128)
    many.clear()
    assert(open == 0)
  }

  test("a range that begins in the one before is not taken from behind the cursor") {
    fill(groups = 1, keys = 1000)
    val overlapping = scans()
    (0 until 1990).foreach(n => ask(overlapping, 0, n, n + 3))
    (0 until 1990 by 3).foreach(n => ask(overlapping, 0, n, n + 5))
    overlapping.clear()
    assert(open == 0)
  }

  test("it knows nothing of what was written since") {
    fill(groups = 3, keys = 1000)
    val inOrder = scans()
    val random = new Random(2)
    var known = 0
    for (n <- 0 until 2000 by 3; group <- 0 until 3) {
      if (random.nextInt(30) == 0) {
        stored.put((group, n + random.nextInt(3)), "new")
        stored.remove((group, n + 3 + random.nextInt(3)))
        writes += 1
      }
      if (ask(inOrder, group, n, n + 3)) known += 1
    }
    assert(known > 500)
    inOrder.clear()
    assert(open == 0)
  }

  test("a cursor that fails is left, and the scan tells whether its entries can be read") {
    fill(groups = 1, keys = 1000)
    val inOrder = scans()
    damaged = Some(1000)
    try {
      val known = (0 until 2000).map(n => ask(inOrder, 0, n, n + 1))
      assert(known.take(990).count(identity) > 900 && known.last == false)
      assert(opened < 20 && open == 0 && !usedAfterFailure)
    } finally damaged = None
  }

  test("any scans agree with the map") {
    val seed = System.nanoTime
    info(s"seed $seed")
    val random = new Random(seed)
    var known = 0
    (1 to 200).foreach { _ =>
      fill(groups = 3, keys = 1 + random.nextInt(60))
      val some = scans()
      val at = new Array[Int](3)
      (1 to 300).foreach { _ =>
        val group = random.nextInt(3)
        at(group) =
          if (random.nextInt(40) == 0) random.nextInt(120)
          else at(group) + random.nextInt(if (random.nextInt(9) == 0) 60 else 3)
        if (ask(some, group, at(group), at(group) + random.nextInt(60))) known += 1
        if (random.nextInt(100) == 0) some.clear()
      }
      some.clear()
      assert(open == 0)
    }
    assert(known > 500)
  }
}
