package keystate

import java.time.Duration

import keystate.StateTtlConfig.{StateVisibility, TtlTimeCharacteristic, UpdateType}
import keystate.backend.TimeToLive

/** How long a state's values live; build one with [[StateTtlConfig.newBuilder]], and pass it to a
  * descriptor's `enableTimeToLive`.
  *
  * Each element of a list and each entry of a map expires on its own; any other state expires as a
  * whole. An entry expires when the clock has reached the time of its last write (or its last read,
  * if reads count) plus the time to live. The clock is the micro-batch's time or the watermark, and
  * stands still within a micro-batch; Flink's clock goes on, and so does the processing time in
  * real-time mode. In a batch query nothing expires.
  */
final class StateTtlConfig private (
    val getUpdateType: UpdateType,
    val getStateVisibility: StateVisibility,
    val getTtlTimeCharacteristic: TtlTimeCharacteristic,
    val getTimeToLive: Duration,
    live: TimeToLive
) extends Serializable {

  /** Whether anything expires: false with `UpdateType.Disabled`. */
  def isEnabled: Boolean = getUpdateType != UpdateType.Disabled

  /** The form that the store gets; None when nothing expires. Not in Flink. */
  def timeToLive: Option[TimeToLive] = Option.when(isEnabled)(live)
}

object StateTtlConfig {

  /** Nothing expires. */
  val DISABLED: StateTtlConfig =
    newBuilder(Duration.ofMillis(Long.MaxValue)).setUpdateType(UpdateType.Disabled).build()

  /** A builder for this time to live. A time to live below one millisecond makes `build` throw
    * IllegalArgumentException.
    */
  def newBuilder(ttl: Duration): Builder = new Builder(ttl)

  /** Which uses of a value start its time to live again. */
  sealed abstract class UpdateType

  object UpdateType {

    /** Nothing expires. */
    case object Disabled extends UpdateType

    /** Writing it. The default. */
    case object OnCreateAndWrite extends UpdateType

    /** Writing it, and reading it by `value`, `get`, `contains` or iteration. */
    case object OnReadAndWrite extends UpdateType
  }

  /** Whether an expired value may be seen. */
  sealed abstract class StateVisibility

  object StateVisibility {

    /** A read may return it once if it has not been cleaned up yet; it is not defined when it is.
      */
    case object ReturnExpiredIfNotCleanedUp extends StateVisibility

    /** A read never returns it. The default. */
    case object NeverReturnExpired extends StateVisibility
  }

  /** The clock by which values expire. */
  sealed abstract class TtlTimeCharacteristic

  object TtlTimeCharacteristic {

    /** The micro-batch's recorded time, the same when the micro-batch is run again. The default. */
    case object ProcessingTime extends TtlTimeCharacteristic

    /** The watermark, which the input must have (`KEYSTATE_NO_WATERMARK`). The time to live starts
      * at the event time of the element or event-time timer that used the value, or at the
      * watermark if that is later. Not in Flink.
      */
    case object EventTime extends TtlTimeCharacteristic
  }

  /** Builds a [[StateTtlConfig]]; each method returns the builder. */
  final class Builder private[StateTtlConfig] (private var ttl: Duration) {
    private var updateType: UpdateType = UpdateType.OnCreateAndWrite
    private var visibility: StateVisibility = StateVisibility.NeverReturnExpired
    private var clock: TtlTimeCharacteristic = TtlTimeCharacteristic.ProcessingTime
    private var sweep: Option[(Int, Boolean)] = None
    private var dropOnMerge = false
    private var inBackground = true

    /** The time to live: one millisecond or more. */
    def setTtl(ttl: Duration): Builder = set(this.ttl = ttl)

    /** Which uses of a value start its time to live again. */
    def setUpdateType(updateType: UpdateType): Builder = set(this.updateType = updateType)

    /** Whether reads may return expired values. */
    def setStateVisibility(visibility: StateVisibility): Builder = set(this.visibility = visibility)

    /** The clock by which values expire. */
    def setTtlTimeCharacteristic(clock: TtlTimeCharacteristic): Builder = set(this.clock = clock)

    /** Only writing a value starts its time to live again. The default. */
    def updateTtlOnCreateAndWrite(): Builder = setUpdateType(UpdateType.OnCreateAndWrite)

    /** Reading a value starts its time to live again too. */
    def updateTtlOnReadAndWrite(): Builder = setUpdateType(UpdateType.OnReadAndWrite)

    /** Reads never return expired values. The default. */
    def neverReturnExpired(): Builder = setStateVisibility(StateVisibility.NeverReturnExpired)

    /** A read may return an expired value once. */
    def returnExpiredIfNotCleanedUp(): Builder =
      setStateVisibility(StateVisibility.ReturnExpiredIfNotCleanedUp)

    /** The clock is the micro-batch's time. The default. */
    def useProcessingTime(): Builder =
      setTtlTimeCharacteristic(TtlTimeCharacteristic.ProcessingTime)

    /** The clock is the watermark. Not in Flink. */
    def useEventTime(): Builder = setTtlTimeCharacteristic(TtlTimeCharacteristic.EventTime)

    /** Background merging of files leaves expired entries out, with either backend. Flink leaves
      * them out of full snapshots; Keystate never writes a whole state at once.
      */
    def cleanupFullSnapshot(): Builder = set { dropOnMerge = true }

    /** At its end each task checks some entries of the state and removes expired ones; the next
      * micro-batch goes on from there. Flink does so at each access, and only on the heap.
      *
      * @param cleanupSize
      *   how many entries to check for each entry that the function wrote or removed; at least 1,
      *   else IllegalArgumentException is thrown
      * @param runCleanupForEveryRecord
      *   whether to check this number for each element instead
      */
    def cleanupIncrementally(cleanupSize: Int, runCleanupForEveryRecord: Boolean): Builder = {
      require(cleanupSize > 0, s"the cleanup size must be positive, and is $cleanupSize")
      set { sweep = Some((cleanupSize, runCleanupForEveryRecord)) }
    }

    /** Does the same as [[cleanupFullSnapshot]]. Flink's number is accepted and has no effect; a
      * negative one throws IllegalArgumentException.
      */
    def cleanupInRocksdbCompactFilter(queryTimeAfterNumEntries: Long): Builder = {
      require(queryTimeAfterNumEntries >= 0, "the number of entries must not be negative")
      cleanupFullSnapshot()
    }

    /** Limits the removal of entries that no key reaches to the chosen strategies. Without this
      * call, merging drops expired entries, and unless `cleanupIncrementally` is called, its
      * setting is (5, false).
      */
    def disableCleanupInBackground(): Builder = set { inBackground = false }

    /** Throws IllegalArgumentException if the time to live is less than a millisecond. */
    def build(): StateTtlConfig = {
      val (sweepSize, sweepOnRecords) = sweep.getOrElse((if (inBackground) 5 else 0, false))
      val live = TimeToLive(
        millis = ttl.toMillis,
        eventTime = clock == TtlTimeCharacteristic.EventTime,
        updatedOnRead = updateType == UpdateType.OnReadAndWrite,
        returnExpired = visibility == StateVisibility.ReturnExpiredIfNotCleanedUp,
        sweepSize = sweepSize,
        sweepOnRecords = sweepOnRecords,
        dropOnMerge = dropOnMerge || inBackground
      )
      new StateTtlConfig(updateType, visibility, clock, ttl, live)
    }

    private def set(change: => Unit): Builder = {
      change
      this
    }
  }
}

/** Flink's names for durations. */
object Time {

  /** This number of milliseconds. */
  def milliseconds(milliseconds: Long): Duration = Duration.ofMillis(milliseconds)

  /** This number of seconds. */
  def seconds(seconds: Long): Duration = Duration.ofSeconds(seconds)

  /** This number of minutes. */
  def minutes(minutes: Long): Duration = Duration.ofMinutes(minutes)

  /** This number of hours. */
  def hours(hours: Long): Duration = Duration.ofHours(hours)

  /** This number of days. */
  def days(days: Long): Duration = Duration.ofDays(days)
}
