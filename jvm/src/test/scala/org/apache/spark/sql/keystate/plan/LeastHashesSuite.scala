package org.apache.spark.sql.keystate.plan

import java.nio.{ByteBuffer, ByteOrder}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

class LeastHashesSuite extends AnyFunSuite {
  private def hashesOf(least: LeastHashes): Seq[Long] = {
    val buffer = ByteBuffer.wrap(least.toBytes).order(ByteOrder.LITTLE_ENDIAN)
    val hashes = Seq.fill(least.size)(buffer.getLong)
    assert(!buffer.hasRemaining)
    hashes
  }

  test("the least ones are there, each once, and not many more") {
    val random = new Random(5)
    Seq(1, 2, 7, 402).foreach { wanted =>
      Seq(0, 1, 5, 800, 5000).foreach { count =>
        val values = Seq.fill(count)(random.nextInt(3) match {
          case 0 => random.nextInt(100).toLong - 50
          case 1 => random.nextLong()
          case _ => Long.MinValue + random.nextInt(10)
        })
        val least = new LeastHashes(wanted)
        values.foreach(least.add)
        val found = hashesOf(least)
        assert(found.distinct.size == found.size && found.size <= 2 * wanted)
        assert(found.forall(values.contains))
        assert(found.sorted.take(wanted) == values.distinct.sorted.take(wanted))
      }
    }
  }

  test("hashes are those that state has") {
    assert(
      LeastHashes.mixed(0) == 0xe220a8397b1dcdafL
    ) // the first number of splitmix64 with seed 0
    assert(Seq(1L, -1L, Long.MaxValue).map(LeastHashes.mixed).distinct.size == 3)
  }
}
