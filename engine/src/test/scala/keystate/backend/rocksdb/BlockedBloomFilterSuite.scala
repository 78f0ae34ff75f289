package keystate.backend.rocksdb

import java.nio.ByteBuffer

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import keystate.backend.BytesMap

class BlockedBloomFilterSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val hashes = Gen.listOf(Gen.long)

  test("it has every hash that was added, however many that are") {
    forAll(Gen.choose(1L, 200L), hashes) { (capacity, hashes) =>
      val filter = new BlockedBloomFilter(capacity)
      hashes.foreach(filter.add)
      assert(hashes.forall(filter.mayHave))
    }
  }

  test("so does one that grew, was overfilled, or both") {
    forAll(Gen.choose(1L, 50L), hashes, Gen.listOf(Gen.oneOf(true, false))) {
      (capacity, hashes, choices) =>
        val filter = new GrowingFilter(capacity)
        val choice = choices.iterator
        hashes.foreach { hash =>
          if (filter.isFull) {
            if (filter.canGrow && choice.nextOption().getOrElse(true)) {
              val bytes = filter.bytes
              val more = BlockedBloomFilter.bytesFor(filter.capacity)
              filter.grow()
              assert(filter.bytes == bytes + more)
            } else filter.overfill()
            assert(!filter.isFull)
          }
          filter.add(hash)
        }
        assert(filter.size == hashes.size && hashes.forall(filter.mayHave))
    }
  }

  test("one that was overfilled has room when it grows") {
    val filter = new GrowingFilter(20)
    var hash = 0L
    while (!filter.isFull || filter.canOverfill) {
      if (filter.isFull) filter.overfill()
      filter.add(hash)
      hash += 1
    }
    assert(filter.size >= 40)
    filter.grow()
    assert(!filter.isFull && filter.capacity == 40)
  }

  test("it takes a byte for each hash of its capacity") {
    forAll(Gen.choose(1L, 1L << 20)) { capacity =>
      val bytes = new BlockedBloomFilter(capacity).bytes
      assert(bytes == BlockedBloomFilter.bytesFor(capacity))
      assert(capacity <= bytes && bytes < capacity + 32)
    }
    assert(BlockedBloomFilter.bytesFor(Long.MaxValue) < Int.MaxValue * 8L)
  }

  test("it has as many other hashes as the formula says") {
    val capacity = 100000
    for (size <- Seq(0.5, 1, 1.5, 2)) {
      val filter = new BlockedBloomFilter(capacity.toLong)
      val count = (capacity * size).toInt
      // Keys like those of a query: numbers.
      def hash(n: Int): Long = BytesMap.hash64(ByteBuffer.allocate(8).putLong(n.toLong).array, 0, 8)
      (0 until count).foreach(n => filter.add(hash(n)))
      val tries = 200000
      val found = (count until count + tries).count(n => filter.mayHave(hash(n))).toDouble / tries
      val expected = falsePositives(32 * size)
      info(f"$size%s of the capacity: $found%.4f, by the formula $expected%.4f")
      // Five standard deviations, and what the blocks differ by.
      val deviation = math.sqrt(expected * (1 - expected) / tries)
      assert(math.abs(found - expected) < 5 * deviation + 0.02 * expected)
    }
  }

  /** The share of other hashes that a filter with so many hashes a block seems to have.
    *
    * The number of hashes in a block has Poisson's distribution. With n of them each bit of the
    * block is set with the probability 1 - (1 - 1/64)^n, and the four of a hash with that to the
    * power of four. (Putze, Sanders and Singler, section 3, for one bit in each of four words.)
    */
  private def falsePositives(hashesPerBlock: Double): Double = {
    var poisson = math.exp(-hashesPerBlock)
    var sum = 0.0
    for (n <- 1 to 400) {
      poisson *= hashesPerBlock / n
      sum += poisson * math.pow(1 - math.pow(1 - 1.0 / 64, n), 4)
    }
    sum
  }
}
