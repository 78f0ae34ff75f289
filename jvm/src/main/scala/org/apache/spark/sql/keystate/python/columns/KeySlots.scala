package org.apache.spark.sql.keystate.python.columns

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

import keystate.backend.BytePages

/** Numbers the distinct keys of one generation of the worker's cache: slot 0, 1, 2 ... in the order
  * in which they appear. The JVM and the worker name keys by slot, so that the worker never hashes
  * a key. A hash table with open addressing and linear probing; keys are never removed.
  *
  * Each row looks a key up, and keys are spread all over the memory. So a look-up reads two places:
  * the table, which has the hashes too, and the key's record.
  *
  * {{{
  * record   [int32 slot][int32 length][key], padded to 8 bytes
  * }}}
  */
private[keystate] final class KeySlots {
  import KeySlots._

  // Upper half: the key's hash, never 0. Lower half: the record's address. A free place is 0.
  private var table = new Array[Long](1 << 10)
  private val records = new BytePages
  private var addresses = new Array[Int](1 << 9) // by slot, as are groups
  private var groups = new Array[Int](1 << 9)
  private var used = 0

  def size: Int = used

  /** A copy of a slot's key. */
  def key(slot: Int): Array[Byte] = {
    val page = records.pageOf(addresses(slot))
    val start = BytePages.offsetOf(addresses(slot)) + Header
    Arrays.copyOfRange(page, start, start + int(page, start - 4))
  }

  def group(slot: Int): Int = groups(slot)

  /** The slot of a key, or -1 if it has none. */
  def find(key: UnsafeRow, hash: Int): Int = {
    val spread = mix(hash)
    val mask = table.length - 1
    var at = spread & mask
    var entry = table(at)
    var slot = -1
    while (entry != 0 && slot < 0) {
      if ((entry >>> 32).toInt == spread) slot = slotIf(entry.toInt, key)
      at = (at + 1) & mask
      entry = table(at)
    }
    slot
  }

  /** Gives the next slot to a key that [[find]] did not find. */
  def add(key: UnsafeRow, hash: Int, group: Int): Int = {
    if (used == addresses.length) grow()
    val slot = used
    val length = key.getSizeInBytes
    val address = records.allocate(BytePages.padded(Header + length.toLong))
    val page = records.pageOf(address)
    val at = BytePages.offsetOf(address)
    ints.set(page, at, slot)
    ints.set(page, at + 4, length)
    key.writeToMemory(page, Platform.BYTE_ARRAY_OFFSET.toLong + at + Header)
    addresses(slot) = address
    groups(slot) = group
    used += 1
    insert(mix(hash).toLong << 32 | address & 0xffffffffL)
    slot
  }

  private def insert(entry: Long): Unit = {
    val mask = table.length - 1
    var at = (entry >>> 32).toInt & mask
    while (table(at) != 0) at = (at + 1) & mask
    table(at) = entry
  }

  private def grow(): Unit = {
    addresses = Arrays.copyOf(addresses, addresses.length * 2)
    groups = Arrays.copyOf(groups, groups.length * 2)
    val old = table
    table = new Array[Long](old.length * 2)
    old.foreach(entry => if (entry != 0) insert(entry))
  }

  /** The slot of the record if it has this key, else -1. */
  private def slotIf(address: Int, key: UnsafeRow): Int = {
    val page = records.pageOf(address)
    val at = BytePages.offsetOf(address)
    val length = int(page, at + 4)
    val isKey = length == key.getSizeInBytes && ByteArrayMethods.arrayEquals(
      page,
      Platform.BYTE_ARRAY_OFFSET.toLong + at + Header,
      key.getBaseObject,
      key.getBaseOffset,
      length.toLong
    )
    if (isKey) int(page, at) else -1
  }
}

private[keystate] object KeySlots {
  private final val Header = 8

  private val ints =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.LITTLE_ENDIAN)

  private def int(page: Array[Byte], at: Int): Int = {
    val value: Int = ints.get(page, at)
    value
  }

  /** Spreads the hash: it also chose the partition, so its low bits are not uniform here. Never 0. */
  private def mix(hash: Int): Int = {
    val h = hash * 0x9e3779b9
    val spread = h ^ (h >>> 16)
    if (spread == 0) 1 else spread
  }
}
