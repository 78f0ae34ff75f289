package keystate.ttl

import keystate.backend.{StateEntries, StateValue, WrappedEntries}

/** The entries of states with a time to live: gives every entry that is put a timestamp, and hides
  * and removes those that have expired when it comes across them.
  *
  * An entry without a timestamp was written before the state had a time to live. It counts as
  * written when it is first come across.
  */
final class TtlEntries(entries: StateEntries, expiry: Expiry) extends WrappedEntries(entries) {

  /** Makes an entry live on from a time, if that is later than what it lives on from now. An entry
    * that is not there, or has expired, stays so.
    */
  def touch(family: Int, group: Int, key: Array[Byte], time: Long): Unit = {
    val value = entries.get(family, group, key)
    if (value != null && !expiry.isExpired(value)) {
      val latest = Math.max(time, expiry.now)
      if (StateValue.timestamp(value) < latest)
        entries.put(family, group, key, StateValue.withTimestamp(value, latest))
    }
  }

  /** Whether what is put now, and then touched with a time, gets the timestamp that this value has. */
  def isOf(time: Long, value: Array[Byte]): Boolean =
    StateValue.timestamp(value) == Math.max(time, expiry.now)

  /** By event time an entry lives on from the latest of what wrote it, in whatever order that came. */
  private def timestamp(family: Int, group: Int, key: Array[Byte]): Long =
    if (!expiry.ttl.eventTime) expiry.now
    else {
      val old = entries.get(family, group, key)
      if (old == null) expiry.now else Math.max(StateValue.timestamp(old), expiry.now)
    }

  override protected def written(
      family: Int,
      group: Int,
      key: Array[Byte],
      value: Array[Byte]
  ): Array[Byte] = StateValue.withTimestamp(value, timestamp(family, group, key))

  override protected def read(
      family: Int,
      group: Int,
      key: Array[Byte],
      value: Array[Byte]
  ): Array[Byte] =
    if (value == null) null
    else if (StateValue.timestamp(value) == StateValue.NoTimestamp) {
      val stamped = StateValue.withTimestamp(value, expiry.now)
      entries.put(family, group, key, stamped)
      stamped
    } else if (expiry.isExpired(value)) {
      entries.remove(family, group, key)
      if (expiry.ttl.returnExpired) value else null
    } else value
}
