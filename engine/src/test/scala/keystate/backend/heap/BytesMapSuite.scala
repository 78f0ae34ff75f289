package keystate.backend.heap

import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.BytesMap

class BytesMapSuite extends AnyFunSuite {

  test("agrees with a plain map under random operations, also when all keys collide") {
    val seed = System.nanoTime
    info(s"seed $seed")
    Seq[Array[Byte] => Int](key => BytesMap.hash(key, key.length), key => key.length + 1, _ => 7)
      .foreach { hash =>
        val random = new Random(seed)
        val map = new BytesMap[String]
        val model = mutable.Map.empty[Seq[Byte], String]
        (1 to 20000).foreach { step =>
          val key = new Array[Byte](random.nextInt(3))
          random.nextBytes(key)
          key.indices.foreach(i => key(i) = (key(i) & 15).toByte)
          random.nextInt(4) match {
            case 0 =>
              val absent = !model.contains(key.toSeq)
              assert(map.putIfAbsent(key, hash(key), s"$step") == absent)
              if (absent) model(key.toSeq) = s"$step"
            case 1 =>
              assert(map.put(key, hash(key), s"$step") == model.put(key.toSeq, s"$step").orNull)
            case 2 =>
              assert(map.remove(key, key.length, hash(key)) == model.remove(key.toSeq).orNull)
            case 3 =>
              assert(map.get(key, key.length, hash(key)) == model.get(key.toSeq).orNull)
          }
          assert(map.size == model.size)
        }
        val entries = mutable.Buffer.empty[(Seq[Byte], String)]
        map.foreach((key, value) => entries += key.toSeq -> value)
        assert(entries.size == model.size && entries.toMap == model)
        assert(map.copyKeys().map(_.toSeq).toSet == model.keySet)
      }
  }

  test("finds a key by the first bytes of a longer array") {
    val map = new BytesMap[String]
    val key = Array[Byte](1, 2, 3)
    map.put(key, BytesMap.hash(key, 3), "found")
    val longer = Array[Byte](1, 2, 3, 4, 5)
    assert(map.get(longer, 3, BytesMap.hash(longer, 3)) == "found")
    assert(map.get(longer, 5, BytesMap.hash(longer, 5)) == null)
  }

  test("sequential keys spread over the hash's low bits") {
    val keys = (0 until 1 << 16).map(i => ByteBuffer.allocate(16).putLong(8, i.toLong).array)
    val buckets = new Array[Int](1 << 10)
    keys.foreach(key => buckets(BytesMap.hash(key, key.length) & (buckets.length - 1)) += 1)
    Arrays.sort(buckets)
    assert(buckets.head > 20 && buckets.last < 120, "64 were expected in each")
  }
}
