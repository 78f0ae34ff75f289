package keystate.keygroup

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.catalyst.expressions.{Literal, Murmur3Hash, Murmur3HashFunction}
import org.apache.spark.sql.types.IntegerType

class KeyGroupsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val maxParallelisms =
    Gen.oneOf(Gen.choose(1, 300), Gen.oneOf(1, 2, 127, 128, 720, 1000, KeyGroups.MaxMaxParallelism))
  private val anyInt = Gen.chooseNum(Int.MinValue, Int.MaxValue, -1, 0, 1)

  test("the ranges of all subtasks partition the key groups") {
    forAll(maxParallelisms, Gen.choose(0.0, 1.0)) { (k, share) =>
      val n = 1 + (share * (k - 1)).toInt
      val groups = (0 until n).flatMap { subtask =>
        val range = KeyGroups.rangeOf(subtask, n, k)
        range.first to range.last
      }
      assert(groups == (0 until k))
    }
  }

  test("a group belongs to the subtask whose range has it, for every parallelism") {
    for (k <- Seq(1, 7, 128, 200); n <- 1 to k; group <- 0 until k) {
      val subtask = KeyGroups.subtaskOf(group, n, k)
      assert(KeyGroups.rangeOf(subtask, n, k).contains(group), s"group $group, $n of $k")
    }
  }

  test("ranges are even: sizes differ by at most one") {
    for (k <- Seq(128, 200, 1000); n <- 1 to k) {
      val sizes = (0 until n).map(KeyGroups.rangeOf(_, n, k).size)
      assert(sizes.max - sizes.min <= 1, s"$n of $k")
    }
  }

  test("5 subtasks of 128 groups, as Flink has them") {
    val ranges = (0 until 5).map(KeyGroups.rangeOf(_, 5, 128)).map(r => (r.first, r.last))
    assert(ranges == Seq((0, 25), (26, 51), (52, 76), (77, 102), (103, 127)))
  }

  test("impossible parallelism and subtasks are refused") {
    Seq((0, 0, 8), (0, 9, 8), (-1, 4, 8), (4, 4, 8)).foreach { case (subtask, n, k) =>
      intercept[IllegalArgumentException](KeyGroups.rangeOf(subtask, n, k))
    }
    intercept[IllegalArgumentException](KeyGroups.checkMaxParallelism(0))
    intercept[IllegalArgumentException](
      KeyGroups.checkMaxParallelism(KeyGroups.MaxMaxParallelism + 1)
    )
  }

  test("groups of negative hashes are not negative") {
    forAll(anyInt, maxParallelisms) { (hash, k) =>
      val group = KeyGroups.groupOf(hash, k)
      assert(0 <= group && group < k && (hash.toLong - group) % k == 0)
    }
  }

  test("range arithmetic") {
    val range = KeyGroupRange(3, 5)
    assert(range.size == 3)
    assert(!range.contains(2) && range.contains(3) && range.contains(5) && !range.contains(6))
    assert(range.intersects(KeyGroupRange(5, 9)) && !range.intersects(KeyGroupRange(6, 9)))
  }

  test("the inverse of Spark's murmur3 is exact, both ways") {
    def hash(x: Int, seed: Int) = Murmur3HashFunction.hash(x, IntegerType, seed.toLong).toInt
    forAll(anyInt, anyInt) { (x, seed) =>
      assert(hash(Murmur3.inverseHashInt(x, seed), seed) == x)
      assert(Murmur3.inverseHashInt(hash(x, seed), seed) == x)
    }
    assert(hash(1, Murmur3.Seed) == new Murmur3Hash(Seq(Literal(1))).eval())
  }

  test("Spark's hash partitioning sends a label to its partition") {
    (0 until 1000).foreach { partition =>
      val hash = new Murmur3Hash(Seq(Literal(KeyGroups.label(partition)))).eval().asInstanceOf[Int]
      (partition + 1 to partition + 3).foreach(n => assert(Math.floorMod(hash, n) == partition))
    }
  }

  test("the default max parallelism is Flink's") {
    val expected = Map(1 -> 128, 85 -> 128, 86 -> 256, 200 -> 512, 4096 -> 8192, 40000 -> 32768)
    expected.foreach { case (parallelism, maxParallelism) =>
      assert(KeyGroups.defaultMaxParallelism(parallelism) == maxParallelism, parallelism)
    }
  }
}
