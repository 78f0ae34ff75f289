package keystate.backend

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

/** Hash map from byte arrays to values: open addressing with linear probing in flat arrays, no
  * entry objects. One thread at a time.
  *
  * The map stores the hashes, so that growing and probing seldom read a key; no hash is 0, which
  * marks a free slot. Deletion moves later entries of a probe sequence back, so there are no
  * tombstones to clean.
  *
  * A key is passed as the first `length` bytes of an array with their `BytesMap.hash`, so that a
  * prefix of a longer key can be looked up without a copy. The map keeps the arrays of keys that
  * are put; they must not be changed. Values must not be null.
  */
private[keystate] final class BytesMap[V <: AnyRef] {
  import BytesMap._

  private var hashes = new Array[Int](InitialCapacity)
  // For each slot the key and then the value, because both are read together.
  private var entries = new Array[AnyRef](2 * InitialCapacity)
  private var count = 0

  def size: Int = count

  /** The key's value; null when there is none. */
  def get(key: Array[Byte], length: Int, hash: Int): V = {
    val slot = find(key, length, hash)
    if (slot < 0) null.asInstanceOf[V] else valueAt(slot)
  }

  /** The value of the key that is the whole array; null when there is none. */
  def get(key: Array[Byte]): V = get(key, key.length, hash(key, key.length))

  /** Sets the value of the key, which is the whole array. Returns the previous value, or null. */
  def put(key: Array[Byte], value: V): V = put(key, hash(key, key.length), value)

  /** Sets the value of the key, which is the whole array with this hash. Returns the previous
    * value, or null.
    */
  def put(key: Array[Byte], hash: Int, value: V): V = {
    val slot = find(key, key.length, hash)
    if (slot >= 0) {
      val old = valueAt(slot)
      entries(2 * slot + 1) = value
      old
    } else {
      insert(~slot, key, hash, value)
      null.asInstanceOf[V]
    }
  }

  /** Adds the key, which is the whole array, unless the map has it. Returns whether it was added.
    */
  def putIfAbsent(key: Array[Byte], hash: Int, value: V): Boolean = {
    val slot = find(key, key.length, hash)
    if (slot < 0) insert(~slot, key, hash, value)
    slot < 0
  }

  /** Removes the key that is the whole array; returns the value it had, or null. */
  def remove(key: Array[Byte]): V = remove(key, key.length, hash(key, key.length))

  /** Removes the key; returns the value it had, or null. */
  def remove(key: Array[Byte], length: Int, hash: Int): V = {
    val slot = find(key, length, hash)
    if (slot < 0) null.asInstanceOf[V]
    else {
      val old = valueAt(slot)
      count -= 1
      closeGap(slot)
      old
    }
  }

  /** The keys in no order, in an array of the caller's own. */
  def copyKeys(): Array[Array[Byte]] = {
    val copy = new Array[Array[Byte]](count)
    var n = 0
    var slot = 0
    while (n < copy.length) {
      if (hashes(slot) != 0) {
        copy(n) = keyAt(slot)
        n += 1
      }
      slot += 1
    }
    copy
  }

  /** Gives each key and value to `f`, in no order. `f` must not change the map. */
  def foreach(f: (Array[Byte], V) => Unit): Unit = {
    var slot = 0
    while (slot < hashes.length) {
      if (hashes(slot) != 0) f(keyAt(slot), valueAt(slot))
      slot += 1
    }
  }

  private def keyAt(slot: Int): Array[Byte] = entries(2 * slot).asInstanceOf[Array[Byte]]
  private def valueAt(slot: Int): V = entries(2 * slot + 1).asInstanceOf[V]

  /** The key's slot, or the complement of the free slot where it belongs. */
  private def find(key: Array[Byte], length: Int, hash: Int): Int = {
    val mask = hashes.length - 1
    var slot = hash & mask
    var candidate = hashes(slot)
    while (candidate != 0) {
      if (candidate == hash) {
        val stored = keyAt(slot)
        if (Arrays.equals(stored, 0, stored.length, key, 0, length)) return slot
      }
      slot = (slot + 1) & mask
      candidate = hashes(slot)
    }
    ~slot
  }

  private def insert(freeSlot: Int, key: Array[Byte], hash: Int, value: V): Unit = {
    val slot =
      if ((count + 1) * 4L <= hashes.length * 3L) freeSlot
      else {
        grow()
        ~find(key, key.length, hash)
      }
    hashes(slot) = hash
    entries(2 * slot) = key
    entries(2 * slot + 1) = value
    count += 1
  }

  // Allocates everything before it changes anything: running out of memory leaves the map intact.
  private def grow(): Unit = {
    val capacity = Math.multiplyExact(hashes.length, 2)
    val newEntries = new Array[AnyRef](Math.multiplyExact(2, capacity))
    val newHashes = new Array[Int](capacity)
    var slot = 0
    while (slot < hashes.length) {
      if (hashes(slot) != 0) {
        var target = hashes(slot) & (capacity - 1)
        while (newHashes(target) != 0) target = (target + 1) & (capacity - 1)
        newHashes(target) = hashes(slot)
        newEntries(2 * target) = entries(2 * slot)
        newEntries(2 * target + 1) = entries(2 * slot + 1)
      }
      slot += 1
    }
    entries = newEntries
    hashes = newHashes
  }

  /** Frees a slot. The next entry of the probe sequence that may move into the gap does, and leaves
    * the next gap. One may move if its own slot, where probing for it begins, is not after the gap.
    */
  private def closeGap(removed: Int): Unit = {
    val mask = hashes.length - 1
    var gap = removed
    var slot = (gap + 1) & mask
    while (hashes(slot) != 0) {
      val distance = (slot - hashes(slot)) & mask
      if (distance >= ((slot - gap) & mask)) {
        hashes(gap) = hashes(slot)
        entries(2 * gap) = entries(2 * slot)
        entries(2 * gap + 1) = entries(2 * slot + 1)
        gap = slot
      }
      slot = (slot + 1) & mask
    }
    hashes(gap) = 0
    entries(2 * gap) = null
    entries(2 * gap + 1) = null
  }
}

private[keystate] object BytesMap {
  private final val InitialCapacity = 8
  private val longs =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.LITTLE_ENDIAN)

  /** Hash of the first `length` bytes, eight at a time; never 0. The hash is not stored. The steps
    * are those of MurmurHash3 and its finaliser for 64 bits, by Austin Appleby.
    */
  def hash(bytes: Array[Byte], length: Int): Int = hash(bytes, 0, length)

  /** Hash of `length` bytes from `start` on; never 0. */
  def hash(bytes: Array[Byte], start: Int, length: Int): Int = {
    val h = hash64(bytes, start, length).toInt
    if (h == 0) 1 else h
  }

  /** All 64 bits of the hash; may be 0. */
  def hash64(bytes: Array[Byte], start: Int, length: Int): Long = {
    var h = length.toLong
    val end = start + length
    var i = start
    while (i + 8 <= end) {
      val k: Long = longs.get(bytes, i)
      h = java.lang.Long.rotateLeft(h ^ k * 0x87c37b91114253d5L, 27) * 0x4cf5ad432745937fL
      i += 8
    }
    while (i < end) {
      h = (h ^ (bytes(i) & 0xff)) * 0x100000001b3L
      i += 1
    }
    h ^= h >>> 33
    h *= 0xff51afd7ed558ccdL
    h ^= h >>> 33
    h *= 0xc4ceb9fe1a85ec53L
    h ^ h >>> 33
  }
}
