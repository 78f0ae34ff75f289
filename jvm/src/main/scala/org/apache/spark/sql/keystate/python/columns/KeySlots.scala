package org.apache.spark.sql.keystate.python.columns

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/** Numbers the distinct keys of one generation of the worker's cache: slot 0, 1, 2 ... in the order
  * in which they appear. The JVM and the worker name keys by slot, so that the worker never hashes
  * a key. A hash table with open addressing and linear probing; keys are never removed.
  */
private[keystate] final class KeySlots {
  private var table = new Array[Int](1 << 10) // slot + 1; 0 is free
  private var keys = new Array[Array[Byte]](1 << 9)
  private var hashes = new Array[Int](1 << 9)
  private var groups = new Array[Int](1 << 9)
  private var used = 0

  def size: Int = used
  def key(slot: Int): Array[Byte] = keys(slot)
  def group(slot: Int): Int = groups(slot)

  /** The slot of a key, or -1 if it has none. */
  def find(key: UnsafeRow, hash: Int): Int = {
    val mask = table.length - 1
    var at = mix(hash) & mask
    var slot = table(at) - 1
    while (slot >= 0 && !(hashes(slot) == hash && sameBytes(keys(slot), key))) {
      at = (at + 1) & mask
      slot = table(at) - 1
    }
    slot
  }

  /** Gives the next slot to a key that [[find]] did not find. */
  def add(key: UnsafeRow, hash: Int, group: Int): Int = {
    if (used == keys.length) grow()
    val slot = used
    keys(slot) = copyOf(key)
    hashes(slot) = hash
    groups(slot) = group
    used += 1
    insert(slot)
    slot
  }

  private def insert(slot: Int): Unit = {
    val mask = table.length - 1
    var at = mix(hashes(slot)) & mask
    while (table(at) != 0) at = (at + 1) & mask
    table(at) = slot + 1
  }

  private def grow(): Unit = {
    keys = Arrays.copyOf(keys, keys.length * 2)
    hashes = Arrays.copyOf(hashes, hashes.length * 2)
    groups = Arrays.copyOf(groups, groups.length * 2)
    table = new Array[Int](table.length * 2)
    (0 until used).foreach(insert)
  }

  /** Always a copy: `getBytes` may return the row's own buffer, which the next row overwrites. */
  private def copyOf(key: UnsafeRow): Array[Byte] = {
    val bytes = new Array[Byte](key.getSizeInBytes)
    key.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET.toLong)
    bytes
  }

  /** Spreads the hash: it also chose the partition, so its low bits are not uniform here. */
  private def mix(hash: Int): Int = {
    val h = hash * 0x9e3779b9
    h ^ (h >>> 16)
  }

  private def sameBytes(stored: Array[Byte], key: UnsafeRow): Boolean =
    stored.length == key.getSizeInBytes && ByteArrayMethods.arrayEquals(
      stored,
      Platform.BYTE_ARRAY_OFFSET.toLong,
      key.getBaseObject,
      key.getBaseOffset,
      stored.length.toLong
    )
}
