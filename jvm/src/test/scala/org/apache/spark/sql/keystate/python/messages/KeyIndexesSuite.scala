package org.apache.spark.sql.keystate.python.messages

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Slots of keys, against a map. */
class KeyIndexesSuite extends AnyFunSuite {

  /** A row of so many words, whose bytes are anything; of half of them nothing is null. */
  private def row(random: Random, words: Int): UnsafeRow = {
    val bytes = new Array[Byte](8 + 8 * words)
    random.nextBytes(bytes)
    if (random.nextBoolean()) java.util.Arrays.fill(bytes, 0, 8, 0.toByte)
    val row = new UnsafeRow(1)
    row.pointTo(bytes, bytes.length)
    row
  }

  private def check(name: String, count: Int, words: Random => Int, distinct: Int = Int.MaxValue)(
      hash: UnsafeRow => Int
  ): Unit =
    test(name) {
      val random = new Random(3)
      val keyIndexes = new KeyIndexes
      val known = mutable.LinkedHashMap.empty[Seq[Byte], (UnsafeRow, Int)]
      for (_ <- 1 to count) {
        val drawn = new Random(random.nextInt(distinct))
        val key = row(drawn, words(drawn))
        val bytes = key.getBytes.toSeq
        assert(keyIndexes.find(key, hash(key)) == known.get(bytes).fold(-1)(_._2))
        if (!known.contains(bytes)) {
          val keyIndex = keyIndexes.add(key, hash(key), group = known.size % 128)
          assert(keyIndex == known.size)
          known(bytes) = (key, keyIndex)
        }
      }
      assert(keyIndexes.size == known.size)
      known.foreach { case (bytes, (key, keyIndex)) =>
        assert(
          keyIndexes.find(key, hash(key)) == keyIndex && keyIndexes
            .group(keyIndex) == keyIndex % 128
        )
        assert(keyIndexes.key(keyIndex).toSeq == bytes)
      }
    }

  check("many keys of several lengths", 20000, _.nextInt(4))(_.hashCode)
  check("keys of more than a page", 40, random => random.nextInt(20000))(_.hashCode)
  check("different keys with one hash", 600, random => random.nextInt(3))(_ => 0)
  check("keys of one word, some of them null", 5000, _ => 1, distinct = 100)(_.hashCode & 3)
  check("hashes that differ little", 5000, _ => 1)(key => key.getBytes.last & 7)
}
