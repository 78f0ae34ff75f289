package keystate.backend

import java.util.Arrays

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

class KeySortSuite extends AnyFunSuite {

  test("sort agrees with a comparison of whole keys") {
    val seed = System.nanoTime
    info(s"seed $seed")
    val random = new Random(seed)
    for {
      count <- Seq(0, 1, 32, 33, 100, 5000)
      prefix <- Seq(0, 3, 20)
      length <- Seq(0, 1, 3, 8, 9, 30)
      range <- Seq(2, 256)
    } {
      val common = random.nextBytes(prefix)
      val keys = Array.fill(count + 5) {
        common ++ Array.fill(random.nextInt(length + 1))(random.nextInt(range).toByte)
      }
      val expected = keys.clone
      Arrays.sort(expected, 0, count, BytewiseOrder.comparator)
      KeySort.sort(keys, count)
      assert(keys.map(_.toSeq).toSeq == expected.map(_.toSeq).toSeq, (count, prefix, length, range))
    }
  }

  test("keys of few beginnings are sorted by what comes after them") {
    val random = new Random(7)
    // An entry's key of a map: the key, and then the entry's own.
    val entries = Array.fill(20000) {
      Array.fill[Byte](8)(random.nextInt(3).toByte) ++ Array.fill[Byte](6)(1) ++
        random.nextBytes(random.nextInt(12))
    }
    val zeros = Array.tabulate(600)(i => Array.fill[Byte](i * 7)(0) ++ random.nextBytes(1))
    for (keys <- Seq(entries, zeros, zeros.map(_.dropRight(1)))) {
      val sorted = keys.clone
      Arrays.sort(sorted, BytewiseOrder.comparator)
      val expected = sorted.map(_.toSeq).toSeq
      KeySort.sort(keys, keys.length)
      assert(keys.map(_.toSeq).toSeq == expected)
    }
  }
}
