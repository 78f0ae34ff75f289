package keystate.checkpoint

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.{Change, GroupedKey}

class KeyDifferenceSuite extends AnyFunSuite {
  private def entry(group: Int, key: String, value: String = "v"): Change =
    Change(0, group, key.getBytes, value.getBytes)

  private def difference(before: Seq[Seq[Change]], after: Seq[Seq[Change]]): KeyDifference =
    KeyDifference.of(before.map(_.iterator), after.map(_.iterator), identity)

  test("partitions with the same groups") {
    val before = Seq(Seq(entry(10, "a")), Seq(entry(11, "b")))
    val after = Seq(Seq(entry(10, "a"), entry(90, "c")), Seq(entry(11, "b")))
    assert(difference(before, after) == KeyDifference(1, 0, 0, 2))
    assert(difference(after, before) == KeyDifference(0, 1, 0, 2))
    assert(difference(Nil, after) == KeyDifference(3, 0, 0, 0))
  }

  test("any number of partitions on either side") {
    val seed = Random.nextLong()
    val random = new Random(seed)
    def dealt(entries: Seq[Change], partitions: Int): Seq[Seq[Change]] = {
      val of = entries.groupBy(_ => random.nextInt(partitions))
      (0 until partitions).map(of.getOrElse(_, Nil))
    }
    (1 to 50).foreach { _ =>
      // In the order of groups and keys, and so is each partition.
      val all = for (group <- 0 until 8; key <- 0 until 8) yield entry(group, s"$key")
      val (kept, other) = all.partition(_ => random.nextBoolean())
      val (removed, added) = other.partition(_ => random.nextBoolean())
      val changed = kept.filter(_ => random.nextInt(3) == 0).toSet
      val before = all.filterNot(added.toSet)
      val after = all.filterNot(removed.toSet).map { one =>
        if (changed(one)) one.copy(value = "w".getBytes) else one
      }
      val found = difference(dealt(before, 1 + random.nextInt(5)), dealt(after, 3))
      val expected = Seq(added.size, removed.size, changed.size, kept.size - changed.size)
      assert(found.productIterator.toSeq == expected.map(_.toLong), s"seed $seed")
    }
  }

  test("a key of a list or map is one, with all its entries") {
    def entries(key: String, of: String*): Seq[Change] =
      of.map(user => Change(0, 3, GroupedKey.entry(key.getBytes, user.getBytes), Array(1)))
    val before = Seq(entries("a", "x", "y"), entries("b", "x"))
    val after = Seq(entries("a", "x") ++ entries("b", "x"), entries("c", "x", "y"))
    val found =
      KeyDifference.of(before.map(_.iterator), after.map(_.iterator), GroupedKey.prefixOf)
    assert(found == KeyDifference(1, 0, 1, 1))
  }
}
