package keystate

import java.time.Duration

import keystate.StateTtlConfig.{StateVisibility, TtlTimeCharacteristic, UpdateType}
import keystate.backend.TimeToLive

/** How long a state's values live: build one with [[StateTtlConfig.newBuilder]], and give it to a
  * descriptor with `enableTimeToLive`.
  *
  * Each element of a list and each entry of a map expires for itself, any other state as a whole:
  * once the clock shows the time of its last write, or read if reads count, plus the time to live,
  * or more. The clock is the micro-batch's time or the watermark, and stands still within a
  * micro-batch; Flink's goes on, as does the processing time in real-time mode. In a batch query
  * nothing expires.
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

  /** What the store is told of this; None when nothing expires. Not in Flink. */
  def timeToLive: Option[TimeToLive] = Option.when(isEnabled)(live)
}

object StateTtlConfig {

  /** Nothing expires. */
  val DISABLED: StateTtlConfig =
    newBuilder(Duration.ofMillis(Long.MaxValue)).setUpdateType(UpdateType.Disabled).build()

  /** A builder for this time to live. It must be a millisecond or more, else `build` throws
    * IllegalArgumentException.
    */
  def newBuilder(ttl: Duration): Builder = new Builder(ttl)

  /** What makes a value live on: begins its time to live anew. */
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

    /** It may be returned once, if it was not cleaned up before; whether it was is not defined. */
    case object ReturnExpiredIfNotCleanedUp extends StateVisibility

    /** Never. The default. */
    case object NeverReturnExpired extends StateVisibility
  }

  /** By which clock values expire. */
  sealed abstract class TtlTimeCharacteristic

  object TtlTimeCharacteristic {

    /** The micro-batch's recorded time, the same when it is run again. The default. */
    case object ProcessingTime extends TtlTimeCharacteristic

    /** The watermark, which the input must have (`KEYSTATE_NO_WATERMARK`). A value lives from the
      * event time of the element or event-time timer that used it on, or from the watermark if that
      * is later. Not in Flink.
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

    /** How long values live: a millisecond or more. */
    def setTtl(ttl: Duration): Builder = set(this.ttl = ttl)

    /** What makes values live on. */
    def setUpdateType(updateType: UpdateType): Builder = set(this.updateType = updateType)

    /** Whether expired values may be seen. */
    def setStateVisibility(visibility: StateVisibility): Builder = set(this.visibility = visibility)

    /** By which clock values expire. */
    def setTtlTimeCharacteristic(clock: TtlTimeCharacteristic): Builder = set(this.clock = clock)

    /** Only writing a value makes it live on. The default. */
    def updateTtlOnCreateAndWrite(): Builder = setUpdateType(UpdateType.OnCreateAndWrite)

    /** Reading a value makes it live on too. */
    def updateTtlOnReadAndWrite(): Builder = setUpdateType(UpdateType.OnReadAndWrite)

    /** Expired values are never seen. The default. */
    def neverReturnExpired(): Builder = setStateVisibility(StateVisibility.NeverReturnExpired)

    /** An expired value may be returned once. */
    def returnExpiredIfNotCleanedUp(): Builder =
      setStateVisibility(StateVisibility.ReturnExpiredIfNotCleanedUp)

    /** The clock is the micro-batch's time. The default. */
    def useProcessingTime(): Builder =
      setTtlTimeCharacteristic(TtlTimeCharacteristic.ProcessingTime)

    /** The clock is the watermark. Not in Flink. */
    def useEventTime(): Builder = setTtlTimeCharacteristic(TtlTimeCharacteristic.EventTime)

    /** Merging files in the background leaves out what has expired, with either backend. Flink
      * leaves it out of full snapshots; here nothing writes all of a state at once.
      */
    def cleanupFullSnapshot(): Builder = set { dropOnMerge = true }

    /** At its end each task looks at some entries of the state and removes those that have expired;
      * it goes on from there in the next micro-batch. Flink does so at each access, and only on the
      * heap.
      *
      * @param cleanupSize
      *   how many, for each entry that the function wrote or removed; at least 1, else
      *   IllegalArgumentException is thrown
      * @param runCleanupForEveryRecord
      *   whether it is so many for each element instead
      */
    def cleanupIncrementally(cleanupSize: Int, runCleanupForEveryRecord: Boolean): Builder = {
      require(cleanupSize > 0, s"the cleanup size must be positive, and is $cleanupSize")
      set { sweep = Some((cleanupSize, runCleanupForEveryRecord)) }
    }

    /** Does what [[cleanupFullSnapshot]] does. Flink's number is accepted and has no effect; a
      * negative one throws IllegalArgumentException.
      */
    def cleanupInRocksdbCompactFilter(queryTimeAfterNumEntries: Long): Builder = {
      require(queryTimeAfterNumEntries >= 0, "the number of entries must not be negative")
      cleanupFullSnapshot()
    }

    /** Only the chosen strategies remove what no key comes across. Without this, merging drops what
      * has expired, and unless `cleanupIncrementally` is called it is as if by (5, false).
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

  /** So many milliseconds. */
  def milliseconds(milliseconds: Long): Duration = Duration.ofMillis(milliseconds)

  /** So many seconds. */
  def seconds(seconds: Long): Duration = Duration.ofSeconds(seconds)

  /** So many minutes. */
  def minutes(minutes: Long): Duration = Duration.ofMinutes(minutes)

  /** So many hours. */
  def hours(hours: Long): Duration = Duration.ofHours(hours)

  /** So many days. */
  def days(days: Long): Duration = Duration.ofDays(days)
}
