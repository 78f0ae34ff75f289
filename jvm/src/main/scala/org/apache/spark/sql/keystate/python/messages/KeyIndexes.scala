package org.apache.spark.sql.keystate.python.messages

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

import keystate.backend.BytePages

/** Numbers the distinct keys of one cache epoch of the worker's cache: key index 0, 1, 2 ... in
  * order of first appearance. The JVM and the worker identify keys by key index, so that the worker
  * never hashes a key. A hash table with open addressing and linear probing; keys are never
  * removed.
  *
  * Each row looks up a key, and keys are spread over the memory. So a lookup reads few places: for
  * a plain key, which is one word that is not null, only the table; for others also the record.
  *
  * {{{
  * table    [int64 entry][int64 the word of a plain key, the record's address of another]
  * entry    from above: [32 bits hash, never 0][1 bit, set of a plain key][31 bits key index];
  *          0 if free
  * record   [int32 length][4 bytes, so that the key is aligned][key], padded to 8 bytes
  * }}}
  */
private[keystate] final class KeyIndexes {
  import KeyIndexes._

  private var table = new Array[Long](1 << 11)
  private val records = new BytePages
  private var addresses = new Array[Int](1 << 9) // by key index, as are groups
  private var groups = new Array[Int](1 << 9)
  private var used = 0

  def size: Int = used

  /** A copy of the key of an index. */
  def key(keyIndex: Int): Array[Byte] = {
    val page = records.pageOf(addresses(keyIndex))
    val start = BytePages.offsetOf(addresses(keyIndex)) + Header
    Arrays.copyOfRange(page, start, start + int(page, start - Header))
  }

  def group(keyIndex: Int): Int = groups(keyIndex)

  /** The key index of a key, or -1 if it has none. */
  def find(key: UnsafeRow, hash: Int): Int = {
    val spread = mix(hash)
    val plain = isPlain(key)
    val word = if (plain) wordOf(key) else 0
    val mask = table.length / 2 - 1
    var at = spread & mask
    var entry = table(2 * at)
    var keyIndex = -1
    while (entry != 0 && keyIndex < 0) {
      if ((entry >>> 32).toInt == spread && (entry.toInt < 0) == plain) {
        val second = table(2 * at + 1)
        if (if (plain) second == word else isKey(second.toInt, key))
          keyIndex = entry.toInt & ~PlainBit
      }
      at = (at + 1) & mask
      entry = table(2 * at)
    }
    keyIndex
  }

  /** Gives the next key index to a key that [[find]] did not find. */
  def add(key: UnsafeRow, hash: Int, group: Int): Int = {
    if (used == addresses.length) grow()
    val keyIndex = used
    val length = key.getSizeInBytes
    val address = records.allocate(BytePages.padded(Header + length.toLong))
    val page = records.pageOf(address)
    val at = BytePages.offsetOf(address)
    ints.set(page, at, length)
    key.writeToMemory(page, Platform.BYTE_ARRAY_OFFSET.toLong + at + Header)
    addresses(keyIndex) = address
    groups(keyIndex) = group
    used += 1
    val plain = isPlain(key)
    val low = if (plain) keyIndex | PlainBit else keyIndex
    insert(mix(hash).toLong << 32 | low & 0xffffffffL, if (plain) wordOf(key) else address.toLong)
    keyIndex
  }

  private def insert(entry: Long, second: Long): Unit = {
    val mask = table.length / 2 - 1
    var at = (entry >>> 32).toInt & mask
    while (table(2 * at) != 0) at = (at + 1) & mask
    table(2 * at) = entry
    table(2 * at + 1) = second
  }

  private def grow(): Unit = {
    addresses = Arrays.copyOf(addresses, addresses.length * 2)
    groups = Arrays.copyOf(groups, groups.length * 2)
    val old = table
    table = new Array[Long](old.length * 2)
    old.indices.by(2).foreach(i => if (old(i) != 0) insert(old(i), old(i + 1)))
  }

  /** Whether the record has this key. */
  private def isKey(address: Int, key: UnsafeRow): Boolean = {
    val page = records.pageOf(address)
    val at = BytePages.offsetOf(address)
    val length = int(page, at)
    length == key.getSizeInBytes && ByteArrayMethods.arrayEquals(
      page,
      Platform.BYTE_ARRAY_OFFSET.toLong + at + Header,
      key.getBaseObject,
      key.getBaseOffset,
      length.toLong
    )
  }
}

private[keystate] object KeyIndexes {
  private final val Header = 8
  private final val PlainBit = 1 << 31

  private val ints =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.LITTLE_ENDIAN)

  private def int(page: Array[Byte], at: Int): Int = {
    val value: Int = ints.get(page, at)
    value
  }

  // An UnsafeRow begins with its nulls' bits: 8 bytes for up to 64 fields.
  private def isPlain(key: UnsafeRow): Boolean =
    key.getSizeInBytes == 16 && Platform.getLong(key.getBaseObject, key.getBaseOffset) == 0

  private def wordOf(key: UnsafeRow): Long =
    Platform.getLong(key.getBaseObject, key.getBaseOffset + 8)

  /** Spreads the hash: it also chose the partition, so its low bits are not uniform here. Never 0. */
  private def mix(hash: Int): Int = {
    val h = hash * 0x9e3779b9
    val spread = h ^ (h >>> 16)
    if (spread == 0) 1 else spread
  }
}
