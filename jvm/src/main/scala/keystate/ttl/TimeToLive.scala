package keystate.ttl

import keystate.backend.StateValue

/** How long the entries of one state live after they were last written, or read.
  *
  * @param millis
  *   an entry has expired once its timestamp is this long ago
  * @param eventTime
  *   whether the clock is the watermark, rather than the micro-batch's recorded time
  * @param updatedOnRead
  *   whether reading an entry makes it live on
  * @param returnExpired
  *   whether an expired entry may still be read, once, when it was not cleaned up before
  * @param sweepSize
  *   how many entries are looked at for each one written, or for each record; 0 does not sweep
  * @param sweepOnRecords
  *   whether records count for sweeping, rather than entries written
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

  /** Whether only the function's worker can tell when an entry was used. */
  def needsNotes: Boolean = eventTime || updatedOnRead
}

/** A time to live at one moment, in ms since the epoch: a task's clock does not move. So what a task
  * writes does not expire in it, and what has expired when it begins is all that does.
  */
final class Expiry(val ttl: TimeToLive, val now: Long) {

  /** The greatest timestamp that has expired. One so long ago that it has no number never does. */
  private val expiredUntil = Expiry.expiredUntil(ttl.millis, now)

  def isExpired(value: Array[Byte]): Boolean = {
    val timestamp = StateValue.timestamp(value)
    timestamp != StateValue.NoTimestamp && timestamp <= expiredUntil
  }

  /** What the checkpoint keeps of it: what merging runs goes by, and where the clock stood. */
  def properties: Map[String, String] = Map(
    Expiry.Millis -> ttl.millis.toString,
    Expiry.Time -> now.toString,
    Expiry.DropOnMerge -> ttl.dropOnMerge.toString
  )
}

object Expiry {
  private final val Millis = "ttl"
  private final val Time = "ttlTime"
  private final val DropOnMerge = "ttlDropOnMerge"

  /** The expiry at a time, which is never before the one that a state's properties tell: a clock that
    * was set back brings nothing back to life.
    */
  def apply(ttl: TimeToLive, time: Long, properties: Map[String, String]): Expiry =
    new Expiry(ttl, properties.get(Time).fold(time)(last => Math.max(last.toLong, time)))

  /** Of a committed state, the greatest timestamp whose entries merging may drop. */
  def droppedUntil(properties: Map[String, String]): Option[Long] =
    for {
      millis <- properties.get(Millis)
      time <- properties.get(Time)
      if properties.get(DropOnMerge).contains("true")
    } yield expiredUntil(millis.toLong, time.toLong)

  private def expiredUntil(millis: Long, now: Long): Long =
    if (now < Long.MinValue + 1 + millis) Long.MinValue else now - millis
}
