package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.DataType

import keystate.backend.{Entry, GroupedKey}
import org.apache.spark.sql.keystate.encoding.OrderedKeyCodec
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The entries of keys in a sorted map whose keys begin with a time, in us.
  *
  * @param userKey
  *   the type of the map's keys: a timestamp, or a struct of one and a number
  */
private[expression] final class TimedEntries(
    entries: FamilyEntries,
    userKey: DataType,
    numbered: Boolean
) extends CountedEntries(entries) {
  private val codec = OrderedKeyCodec(userKey)
  private val holder = new GenericInternalRow(1)
  private val fields = new GenericInternalRow(2)
  private val decoded = new GenericInternalRow(1)
  if (numbered) holder.update(0, fields)

  def entry(key: Array[Byte], time: Long, number: Long = 0): Array[Byte] = {
    if (numbered) {
      fields.update(0, time)
      fields.update(1, number)
    } else holder.update(0, time)
    GroupedKey.entry(key, codec.encode(holder, 0))
  }

  def time(entry: Array[Byte]): Long = {
    codec.decode(entry, GroupedKey.userKeyOffset(entry), decoded, 0)
    if (numbered) decoded.getStruct(0, 2).getLong(0) else decoded.getLong(0)
  }

  def number(entry: Array[Byte]): Long = {
    codec.decode(entry, GroupedKey.userKeyOffset(entry), decoded, 0)
    decoded.getStruct(0, 2).getLong(1)
  }

  /** The last entry of a key before a time. Null if there is none. */
  def lastBefore(group: Int, key: Array[Byte], time: Long): Entry =
    lastBefore(group, key, entry(key, time))

  /** The first entry of a key from a time on. Null if there is none. */
  def firstFrom(group: Int, key: Array[Byte], time: Long): Entry =
    firstFrom(group, entry(key, time))

  /** The first entries of a key, as long as they are wanted. */
  def firsts(group: Int, key: Array[Byte])(isWanted: Entry => Boolean): Seq[Entry] =
    scanning(group, GroupedKey.prefix(key))(_.takeWhile(isWanted).toVector)
}
