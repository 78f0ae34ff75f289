package keystate.backend

/** The entries of a state with a time to live. It adds a timestamp to every entry that is put. It
  * hides and removes the expired entries that it meets.
  *
  * An entry without a timestamp was written before the state had a time to live. It counts as
  * written when it is first met, and gets its timestamp then. In event time the same holds for
  * entries that were written without an event time while there was no watermark (0 in Spark).
  */
final class TtlEntries(entries: StateEntries, expiry: Expiry) extends WrappedEntries(entries) {
  private val hasClock = !expiry.ttl.eventTime || expiry.now != 0

  /** Whether a stored value has expired. It may still be read once if its time to live allows that.
    */
  def isExpired(value: Array[Byte]): Boolean = expiry.isExpired(value)

  /** Gives an entry this time as its timestamp, or the clock's if that is later, unless the
    * timestamp it has is later still. An entry that is not there, or has expired, stays so.
    */
  def touch(family: Int, group: Int, key: Array[Byte], time: Long): Unit = {
    val value = entries.get(family, group, key)
    if (value != null && !expiry.isExpired(value)) {
      val latest = latestOf(time)
      if (StateValue.timestamp(value) < latest)
        entries.put(family, group, key, StateValue.withTimestamp(value, latest))
    }
  }

  /** Whether a stored value has the timestamp that a new entry gets when it is put now and then
    * touched with this time.
    */
  def isOf(time: Long, value: Array[Byte]): Boolean =
    StateValue.timestamp(value) == latestOf(time)

  /** This time, or the clock's if that is later. None of both is no timestamp. */
  private def latestOf(time: Long): Long = {
    val latest = Math.max(time, expiry.now)
    if (hasClock || latest > 0) latest else StateValue.NoTimestamp
  }

  /** The timestamp of an entry that is put. In event time the latest time counts, so a later
    * timestamp of the entry stays.
    */
  private def timestamp(family: Int, group: Int, key: Array[Byte]): Long =
    if (!expiry.ttl.eventTime) expiry.now
    else {
      val old = entries.get(family, group, key)
      latestOf(if (old == null) StateValue.NoTimestamp else StateValue.timestamp(old))
    }

  override protected def written(
      family: Int,
      group: Int,
      key: Array[Byte],
      value: Array[Byte]
  ): Array[Byte] = timestamp(family, group, key) match {
    case StateValue.NoTimestamp => value
    case time => StateValue.withTimestamp(value, time)
  }

  override protected def read(
      family: Int,
      group: Int,
      key: Array[Byte],
      value: Array[Byte]
  ): Array[Byte] =
    if (value == null) null
    else if (hasClock && StateValue.timestamp(value) == StateValue.NoTimestamp) {
      val stamped = StateValue.withTimestamp(value, expiry.now)
      entries.put(family, group, key, stamped)
      stamped
    } else if (expiry.isExpired(value)) {
      entries.remove(family, group, key)
      if (expiry.ttl.returnExpired) value else null
    } else value
}
