package keystate

import java.time.Duration

import keystate.StateTtlConfig.{StateVisibility, TtlTimeCharacteristic, UpdateType}

import keystate.ttl.TimeToLive

/** How long a state's values live: build one with [[StateTtlConfig.newBuilder]], and give it to a
  * descriptor with `enableTimeToLive`.
  *
  * A value, or each element of a list, or each entry of a map, expires when its time to live has
  * passed since it was last written, or read. Time is that of the micro-batch (or the watermark),
  * which does not move within a batch.
  */
final class StateTtlConfig private (
    val getUpdateType: UpdateType,
    val getStateVisibility: StateVisibility,
    val getTtlTimeCharacteristic: TtlTimeCharacteristic,
    val getTimeToLive: Duration,
    live: TimeToLive
) extends Serializable {

  /** Whether anything expires. */
  def isEnabled: Boolean = getUpdateType != UpdateType.Disabled

  /** What the store goes by; None when nothing expires. */
  def timeToLive: Option[TimeToLive] = Option.when(isEnabled)(live)
}

object StateTtlConfig {

  /** Nothing expires. */
  val DISABLED: StateTtlConfig =
    newBuilder(Duration.ofMillis(Long.MaxValue)).setUpdateType(UpdateType.Disabled).build()

  /** A builder for this time to live, which must be a millisecond or more. */
  def newBuilder(ttl: Duration): Builder = new Builder(ttl)

  /** What makes a value live on. */
  sealed abstract class UpdateType

  object UpdateType {

    /** Nothing expires. */
    case object Disabled extends UpdateType

    /** Writing it. */
    case object OnCreateAndWrite extends UpdateType

    /** Writing and reading it. */
    case object OnReadAndWrite extends UpdateType
  }

  /** Whether an expired value may be seen. */
  sealed abstract class StateVisibility

  object StateVisibility {

    /** It may be returned once, if it was not cleaned up before. */
    case object ReturnExpiredIfNotCleanedUp extends StateVisibility

    /** Never. */
    case object NeverReturnExpired extends StateVisibility
  }

  /** By which clock values expire. */
  sealed abstract class TtlTimeCharacteristic

  object TtlTimeCharacteristic {

    /** The micro-batch's recorded time. */
    case object ProcessingTime extends TtlTimeCharacteristic

    /** The watermark; a value lives from its element's event time on. Not in Flink. */
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

    def setTtl(ttl: Duration): Builder = set(this.ttl = ttl)
    def setUpdateType(updateType: UpdateType): Builder = set(this.updateType = updateType)
    def setStateVisibility(visibility: StateVisibility): Builder = set(this.visibility = visibility)
    def setTtlTimeCharacteristic(clock: TtlTimeCharacteristic): Builder = set(this.clock = clock)

    /** The default. */
    def updateTtlOnCreateAndWrite(): Builder = setUpdateType(UpdateType.OnCreateAndWrite)
    def updateTtlOnReadAndWrite(): Builder = setUpdateType(UpdateType.OnReadAndWrite)

    /** The default. */
    def neverReturnExpired(): Builder = setStateVisibility(StateVisibility.NeverReturnExpired)
    def returnExpiredIfNotCleanedUp(): Builder =
      setStateVisibility(StateVisibility.ReturnExpiredIfNotCleanedUp)

    /** The default. */
    def useProcessingTime(): Builder =
      setTtlTimeCharacteristic(TtlTimeCharacteristic.ProcessingTime)

    /** Not in Flink. */
    def useEventTime(): Builder = setTtlTimeCharacteristic(TtlTimeCharacteristic.EventTime)

    /** Files are merged without what has expired, in the background. */
    def cleanupFullSnapshot(): Builder = set { dropOnMerge = true }

    /** Each task looks at some entries and removes those that have expired.
      *
      * @param cleanupSize
      *   how many, for each entry that the function wrote or removed
      * @param runCleanupForEveryRecord
      *   for each element instead
      */
    def cleanupIncrementally(cleanupSize: Int, runCleanupForEveryRecord: Boolean): Builder = {
      require(cleanupSize > 0, s"the cleanup size must be positive, and is $cleanupSize")
      set { sweep = Some((cleanupSize, runCleanupForEveryRecord)) }
    }

    /** As [[cleanupFullSnapshot]]; Flink's number is taken for its sake and has no effect. */
    def cleanupInRocksdbCompactFilter(queryTimeAfterNumEntries: Long): Builder = {
      require(queryTimeAfterNumEntries >= 0, "the number of entries must not be negative")
      cleanupFullSnapshot()
    }

    /** Of what no key comes across, only the strategies that were chosen remove anything. */
    def disableCleanupInBackground(): Builder = set { inBackground = false }

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
  def milliseconds(milliseconds: Long): Duration = Duration.ofMillis(milliseconds)
  def seconds(seconds: Long): Duration = Duration.ofSeconds(seconds)
  def minutes(minutes: Long): Duration = Duration.ofMinutes(minutes)
  def hours(hours: Long): Duration = Duration.ofHours(hours)
  def days(days: Long): Duration = Duration.ofDays(days)
}
