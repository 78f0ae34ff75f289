package keystate.backend.heap

import java.util.Arrays

/** Hash map from byte arrays to values: open addressing with linear probing in flat arrays, no entry
  * objects. Hashes are kept, so that growing and probing seldom look at a key. Deletion moves later
  * entries of a probe sequence back, so there are no tombstones to clean.
  *
  * A key is given as the first `length` bytes of an array with their `BytesMap.hash`, so that a part
  * of a longer key can be looked up without a copy.
  */
private[backend] final class BytesMap[V <: AnyRef] {
  import BytesMap._

  private var keys = new Array[Array[Byte]](InitialCapacity)
  private var values = new Array[AnyRef](InitialCapacity)
  private var hashes = new Array[Int](InitialCapacity)
  private var count = 0

  def size: Int = count

  /** The value, or null. */
  def get(key: Array[Byte], length: Int, hash: Int): V = {
    val slot = find(key, length, hash)
    if (slot < 0) null.asInstanceOf[V] else values(slot).asInstanceOf[V]
  }

  /** Returns the value that was replaced, or null. The whole array is the key. */
  def put(key: Array[Byte], hash: Int, value: V): V = {
    val slot = find(key, key.length, hash)
    if (slot >= 0) {
      val old = values(slot)
      values(slot) = value
      old.asInstanceOf[V]
    } else {
      insert(~slot, key, hash, value)
      null.asInstanceOf[V]
    }
  }

  def putIfAbsent(key: Array[Byte], hash: Int, value: V): Boolean = {
    val slot = find(key, key.length, hash)
    if (slot < 0) insert(~slot, key, hash, value)
    slot < 0
  }

  /** Returns the value that was removed, or null. */
  def remove(key: Array[Byte], length: Int, hash: Int): V = {
    val slot = find(key, length, hash)
    if (slot < 0) null.asInstanceOf[V]
    else {
      val old = values(slot)
      count -= 1
      closeGap(slot)
      old.asInstanceOf[V]
    }
  }

  /** The keys, in no order. */
  def copyKeys(): Array[Array[Byte]] = {
    val copy = new Array[Array[Byte]](count)
    var n = 0
    var slot = 0
    while (n < copy.length) {
      if (keys(slot) != null) {
        copy(n) = keys(slot)
        n += 1
      }
      slot += 1
    }
    copy
  }

  def foreach(f: (Array[Byte], V) => Unit): Unit = {
    var slot = 0
    while (slot < keys.length) {
      if (keys(slot) != null) f(keys(slot), values(slot).asInstanceOf[V])
      slot += 1
    }
  }

  /** The key's slot, or the complement of the free slot where it belongs. */
  private def find(key: Array[Byte], length: Int, hash: Int): Int = {
    val mask = keys.length - 1
    var slot = hash & mask
    var candidate = keys(slot)
    while (candidate != null) {
      if (hashes(slot) == hash && Arrays.equals(candidate, 0, candidate.length, key, 0, length))
        return slot
      slot = (slot + 1) & mask
      candidate = keys(slot)
    }
    ~slot
  }

  private def insert(freeSlot: Int, key: Array[Byte], hash: Int, value: V): Unit = {
    val slot =
      if ((count + 1) * 4L <= keys.length * 3L) freeSlot
      else {
        grow()
        ~find(key, key.length, hash)
      }
    keys(slot) = key
    values(slot) = value
    hashes(slot) = hash
    count += 1
  }

  // Allocates everything before it changes anything: running out of memory leaves the map intact.
  private def grow(): Unit = {
    val capacity = Math.multiplyExact(keys.length, 2)
    val newKeys = new Array[Array[Byte]](capacity)
    val newValues = new Array[AnyRef](capacity)
    val newHashes = new Array[Int](capacity)
    var slot = 0
    while (slot < keys.length) {
      if (keys(slot) != null) {
        var target = hashes(slot) & (capacity - 1)
        while (newKeys(target) != null) target = (target + 1) & (capacity - 1)
        newKeys(target) = keys(slot)
        newValues(target) = values(slot)
        newHashes(target) = hashes(slot)
      }
      slot += 1
    }
    keys = newKeys
    values = newValues
    hashes = newHashes
  }

  /** Fills the gap with the next entry that may move there: one whose own slot is not after it. */
  private def closeGap(removed: Int): Unit = {
    val mask = keys.length - 1
    var gap = removed
    var slot = (gap + 1) & mask
    while (keys(slot) != null) {
      val distance = (slot - hashes(slot)) & mask
      if (distance >= ((slot - gap) & mask)) {
        keys(gap) = keys(slot)
        values(gap) = values(slot)
        hashes(gap) = hashes(slot)
        gap = slot
      }
      slot = (slot + 1) & mask
    }
    keys(gap) = null
    values(gap) = null
  }
}

private[backend] object BytesMap {
  private final val InitialCapacity = 8

  /** murmur3-like hash of the first `length` bytes, four at a time. */
  def hash(bytes: Array[Byte], length: Int): Int = {
    var h = length
    var i = 0
    while (i + 4 <= length) {
      val k = (bytes(i) & 0xff) | (bytes(i + 1) & 0xff) << 8 | (bytes(i + 2) & 0xff) << 16 |
        bytes(i + 3) << 24
      h = Integer.rotateLeft(h ^ k * 0xcc9e2d51, 13) * 0x1b873593
      i += 4
    }
    while (i < length) {
      h = (h ^ (bytes(i) & 0xff)) * 0x01000193
      i += 1
    }
    h ^= h >>> 16
    h *= 0x85ebca6b
    h ^= h >>> 13
    h *= 0xc2b2ae35
    h ^ (h >>> 16)
  }
}
