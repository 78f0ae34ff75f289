package keystate.backend

/** How long the entries of one state live after their last write, or their last read.
  *
  * @param millis
  *   in milliseconds, positive; an entry has expired once its timestamp is this long ago, or longer
  * @param eventTime
  *   whether the clock is the watermark, and not the micro-batch's recorded time
  * @param updatedOnRead
  *   whether reading an entry starts its time to live again
  * @param returnExpired
  *   whether an expired entry may still be read, once, if it has not been cleaned up yet
  * @param sweepSize
  *   how many entries a task checks for each entry that was written or removed, or for each record;
  *   0 does not sweep
  * @param sweepOnRecords
  *   whether sweepSize is per record, and not per entry
  * @param dropOnMerge
  *   whether merging runs in the background leaves expired entries out
  */
final case class TimeToLive(
    millis: Long,
    eventTime: Boolean = false,
    updatedOnRead: Boolean = false,
    returnExpired: Boolean = false,
    sweepSize: Int = 0,
    sweepOnRecords: Boolean = false,
    dropOnMerge: Boolean = true
) {
  require(millis > 0, s"a time to live must be positive, and is $millis ms")

  /** Whether timestamps depend on data that only the function's worker has: when it read an entry,
    * or the event time of the element or timer that used the entry.
    */
  def needsNotes: Boolean = eventTime || updatedOnRead
}

/** A time to live at one moment, for one task, whose clock does not move. So entries that a task
  * writes do not expire in the task, and all entries that expire in it have expired when it begins.
  *
  * @param began
  *   in milliseconds since the epoch
  */
sealed class Expiry(val ttl: TimeToLive, began: Long) {

  /** In milliseconds since the epoch. */
  def now: Long = began

  private val expiredAtFirst = Expiry.expiredUntil(ttl.millis, began)

  /** The greatest timestamp that has expired. `Long.MinValue` where `now` less the time to live is
    * no Long any more: then nothing has.
    */
  protected def expiredUntil: Long = expiredAtFirst

  /** Whether a stored value has expired. A value without a timestamp never expires. */
  def isExpired(value: Array[Byte]): Boolean = Expiry.isExpired(value, expiredUntil)

  /** The form in which the checkpoint keeps it, in the state's properties, for merging runs and for
    * the next task: the time to live, the clock's time, and whether merging may drop expired
    * entries.
    */
  def properties: Map[String, String] = Map(
    Expiry.Millis -> ttl.millis.toString,
    Expiry.Time -> began.toString,
    Expiry.EventTime -> ttl.eventTime.toString,
    Expiry.DropOnMerge -> ttl.dropOnMerge.toString
  )
}

object Expiry {
  private final val Millis = "ttl"
  private final val Time = "ttlTime"
  private final val EventTime = "ttlEventTime"
  private final val DropOnMerge = "ttlDropOnMerge"

  /** The expiry at a time, in milliseconds since the epoch, or at the time in the state's
    * properties if that is later: setting a clock back does not revive an expired entry. The time
    * of the other kind of clock does not count: a watermark may be years behind.
    *
    * @param properties
    *   the state's properties in the last version
    * @param live
    *   whether the clock goes on
    */
  def apply(
      ttl: TimeToLive,
      time: Long,
      properties: Map[String, String],
      live: Boolean = false
  ): Expiry = {
    // Builds that did not note the clock kept watermarks here too; these do not go back.
    val sameClock = properties.get(EventTime).contains("true") == ttl.eventTime
    val began =
      properties.get(Time).filter(_ => sameClock).fold(time)(last => Math.max(last.toLong, time))
    if (live) new LiveExpiry(ttl, began) else new Expiry(ttl, began)
  }

  /** The greatest timestamp whose entries merging may drop from a committed state with these
    * properties; None when it may drop none.
    */
  def droppedUntil(properties: Map[String, String]): Option[Long] =
    if (properties.get(DropOnMerge).contains("true")) expiredUntil(properties) else None

  /** Tests whether a stored value of a committed state with these properties has expired, by the
    * clock of that version. Without a time to live nothing has expired.
    */
  def inVersion(properties: Map[String, String]): Array[Byte] => Boolean = {
    val until = expiredUntil(properties)
    value => until.exists(isExpired(value, _))
  }

  /** The time to live of a committed state with these properties and where its clock stood, both in
    * ms; None without a time to live.
    */
  def inProperties(properties: Map[String, String]): Option[(Long, Long)] =
    for {
      millis <- properties.get(Millis)
      time <- properties.get(Time)
    } yield (millis.toLong, time.toLong)

  private def expiredUntil(properties: Map[String, String]): Option[Long] =
    inProperties(properties).map { case (millis, time) => expiredUntil(millis, time) }

  /** Whether a value has expired, if `until` is the greatest expired timestamp. */
  private def isExpired(value: Array[Byte], until: Long): Boolean = {
    val timestamp = StateValue.timestamp(value)
    timestamp != StateValue.NoTimestamp && timestamp <= until
  }

  /** The greatest timestamp that has expired at a time; `Long.MinValue` where nothing has. */
  private[backend] def expiredUntil(millis: Long, now: Long): Long =
    if (now < Long.MinValue + 1 + millis) Long.MinValue else now - millis
}

/** A time to live for a task in real-time mode, whose clock goes on. */
final class LiveExpiry(ttl: TimeToLive, began: Long) extends Expiry(ttl, began) {
  override def now: Long = Math.max(began, System.currentTimeMillis)
  override protected def expiredUntil: Long = Expiry.expiredUntil(ttl.millis, now)
}
