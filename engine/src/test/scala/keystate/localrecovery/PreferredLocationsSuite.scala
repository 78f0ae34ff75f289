package keystate.localrecovery

import org.scalatest.funsuite.AnyFunSuite

class PreferredLocationsSuite extends AnyFunSuite {

  private def of(before: String, partitions: Int, now: String): String =
    PreferredLocations
      .of(before.map(place => Option.when(place != '-')(place)), partitions, now)
      .map(_.getOrElse('-'))
      .mkString

  test("each partition stays where most of it is") {
    assert(of("abab", 4, "ab") == "abab")
    assert(of("ab", 4, "ab") == "aabb")
    assert(of("aabb", 2, "ab") == "ab")
    assert(of("aab", 2, "ab") == "ab")
    assert(of("a", 3, "a") == "aaa")
  }

  test("what was added gets its even share, and what is gone none") {
    assert(of("aaaa", 4, "ab") == "aabb")
    assert(of("ab", 4, "abcd") == "acbd")
    assert(of("abab", 4, "b") == "bbbb")
    assert(of("abab", 3, "") == "---")
  }

  test("a partition that nobody has, or that has no place yet, goes where there is room") {
    assert(of("a-", 2, "ab") == "ab")
    assert(of("--a", 3, "ab") == "baa")
    assert(of("abab", 2, "ab") == "ab")
    assert(of("", 2, "ab") == "ab")
  }

  test("any numbers: shares are even, and a place keeps as much of what it had as it may") {
    val random = new scala.util.Random(1)
    for (_ <- 0 until 2000) {
      val before =
        IndexedSeq.fill(random.nextInt(9))(Option.when(random.nextInt(4) > 0)(random.nextInt(5)))
      val partitions = 1 + random.nextInt(9)
      val now = (0 until 5).filter(_ => random.nextBoolean())
      val found = PreferredLocations.of(before, partitions, now)
      assert(found.size == partitions)
      if (now.isEmpty) assert(found.flatten.isEmpty)
      else {
        assert(found.forall(_.exists(now.contains)))
        val share = math.ceil(partitions / now.size.toDouble)
        assert(now.forall(place => found.count(_.contains(place)) <= share))
        for (place <- now) {
          val own = (0 until partitions).filter { partition =>
            before.indices.exists { old =>
              before(old).contains(place) &&
              old * partitions < (partition + 1) * before.size &&
              (old + 1) * partitions > partition * before.size
            }
          }
          // Where nobody else has anything, it keeps as much as it may.
          if (before.flatten.toSet == Set(place))
            assert(own.count(found(_).contains(place)) >= math.min(share, own.size.toDouble))
        }
      }
    }
  }
}
