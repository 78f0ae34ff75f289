package org.apache.spark.sql.keystate.state

import java.util.zip.CRC32C

import keystate.backend.{Entry, EntryIterator}
import org.apache.spark.sql.keystate.spec.StateSpec

/** One broadcast state: one entry for each key, in the order of the keys. Keys are encoded by the
  * codec of their order, values as in other states.
  */
private[keystate] final class BroadcastEntries(
    val spec: StateSpec,
    stored: FamilyEntries,
    group: Int
) {

  /** Removes all entries. Returns how many there were. */
  def clear(): Long = {
    val keys = entries(_.key)
    keys.foreach(remove)
    keys.size.toLong
  }

  def get(key: Array[Byte]): Array[Byte] = stored.get(group, key)
  def put(key: Array[Byte], value: Array[Byte]): Unit = stored.put(group, key, value)
  def remove(key: Array[Byte]): Unit = stored.remove(group, key)

  /** The entries from this key on (None: all). The caller closes the iterator. */
  def scan(from: Option[Array[Byte]]): EntryIterator =
    stored.scan(group, from.orNull, null)

  /** Applies `use` to each entry during the call. Returns the results. */
  def entries[T](use: Entry => T): Seq[T] = {
    val entries = stored.scan(group, null, null)
    try entries.map(use).toVector
    finally entries.close()
  }

  def isEmpty: Boolean = {
    val entries = stored.scan(group, null, null)
    try !entries.hasNext
    finally entries.close()
  }

  /** A digest of all entries. It is the same for the same entries. */
  def digest: Long = {
    val crc = new CRC32C
    val entries = stored.scan(group, null, null)
    var count = 0L
    try
      entries.foreach { entry =>
        crc.update(entry.key)
        crc.update(entry.value)
        count += 1
      }
    finally entries.close()
    count << 32 ^ crc.getValue
  }
}
