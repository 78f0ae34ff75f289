package org.apache.spark.sql.keystate.plan

import java.nio.{ByteBuffer, ByteOrder}

/** The least different ones of some hashes: at least as many as are wanted, if there are so many, and
  * less than twice as many. They are in an open hash table, by their lower bits: the upper ones are
  * alike. A place with 0 is free, so whether 0 is among them is told apart.
  */
private[plan] final class LeastHashes(wanted: Int) {
  import LeastHashes._

  private var places = new Array[Long](FirstPlaces)
  private var taken = 0
  private var hasZero = false
  private var greatest = Long.MaxValue

  def size: Int = if (hasZero) taken + 1 else taken

  def add(hash: Long): Unit =
    if (hash == 0) hasZero = true
    else if (hash <= greatest && put(hash)) {
      taken += 1
      if (taken >= 2L * wanted) trim()
      else if (2 * taken > places.length) refill(places, 2 * places.length)
    }

  /** All of them, in any order, as [[LeastHashes.bytes]]. */
  def toBytes: Array[Byte] = {
    val buffer = bytes(size)
    if (hasZero) buffer.putLong(0)
    places.foreach(hash => if (hash != 0) buffer.putLong(hash))
    buffer.array
  }

  private def put(hash: Long): Boolean = {
    var at = hash.toInt & (places.length - 1)
    while (places(at) != 0 && places(at) != hash) at = (at + 1) & (places.length - 1)
    val isNew = places(at) == 0
    places(at) = hash
    isNew
  }

  private def trim(): Unit = {
    val sorted = places.filter(_ != 0)
    java.util.Arrays.sort(sorted)
    taken = wanted
    greatest = sorted(wanted - 1)
    refill(sorted.take(wanted), places.length)
  }

  private def refill(hashes: Array[Long], size: Int): Unit = {
    places = new Array[Long](size)
    hashes.foreach(hash => if (hash != 0) put(hash))
  }
}

private[plan] object LeastHashes {
  private final val FirstPlaces = 8

  /** For so many hashes: eight bytes each, the lowest first. */
  def bytes(count: Int): ByteBuffer =
    ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN)

  /** Stafford's "Mix13", as used by splitmix64 (Steele et al., 2014). State has what it makes: it is
    * that of keystate/_worker/aggregates/distinct_values.py for ever.
    */
  def mixed(value: Long): Long = {
    var bits = value + 0x9e3779b97f4a7c15L
    bits = (bits ^ (bits >>> 30)) * 0xbf58476d1ce4e5b9L
    bits = (bits ^ (bits >>> 27)) * 0x94d049bb133111ebL
    bits ^ (bits >>> 31)
  }
}
