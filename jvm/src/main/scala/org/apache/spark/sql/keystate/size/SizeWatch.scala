package org.apache.spark.sql.keystate.size

import java.util.{Set => JSet, UUID}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.types.StructType

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.metadata.StateChanges
import org.apache.spark.sql.keystate.metrics.{OperatorReport, Recent, SubtaskReport}
import org.apache.spark.sql.keystate.store.StoredSubtask

/** Checks the size of an operator's state after a micro-batch, and says how it grows.
  *
  * The decision depends only on the state: with limits of entries a micro-batch that is run again
  * fails again.
  *
  * @param name
  *   the operator's name
  * @param budget
  *   None without a limit
  * @param millis
  *   when the micro-batch began
  */
private[keystate] final class SizeWatch(
    @transient info: StatefulOperatorStateInfo,
    @transient name: Option[String],
    @transient budget: Option[Budget],
    @transient millis: => Long,
    @transient keySchema: => StructType,
    @transient conf: => Configuration
) extends OperatorReport[StoredSubtask, StateSizes]
    with Logging {
  import SizeWatch._

  override protected def isNeeded(): Boolean = budget.nonEmpty

  override protected def begin(subtask: StoredSubtask, tell: StateSizes => Unit): SubtaskReport =
    new SubtaskReport {
      override def ended(): Unit = ()
      override def committed(): Unit = tell(StateSizes.of(subtask.store.manifest))
    }

  override def beforeCommit: Option[() => Unit] = budget.map(limits => () => check(limits))

  /** Warns, or throws if a limit was passed. */
  private def check(limits: Budget): Unit = for (limit <- limits.limits) {
    val used = limit.used(told.values)
    if (used > limit.most && limits.fails) throw error(limit, used)
    val isNew = used >= limit.most * limits.warnShare && warned.add((info.queryRunId, limit))
    if (isNew) logWarning(s"${described(limit, used)}. See docs/running/budgets.md")
  }

  private def error(limit: Limit, used: Long) = {
    val state = limit.state.getOrElse {
      told.values.flatMap(_.entries).groupMapReduce(_._1)(_._2)(_ + _).maxBy(_._2)._1
    }
    val folder = new Path(info.checkpointLocation, s"${info.operatorId}")
    val largest = new LargestKeys(folder, keySchema, info.storeVersion + 1, told, conf)
    KeystateErrors.stateLimit(described(limit, used), state, largest.of(state), info.storeVersion)
  }

  private def described(limit: Limit, used: Long): String = {
    val what = limit.state.fold("The state")(state => s"State '$state'")
    s"$what of ${StateChanges.describe(info, name)} has $used of at most ${limit.most} " +
      s"${limit.unit} (${limit.setBy})"
  }

  override def metrics(progress: StateOperatorProgress): Map[String, Long] = {
    def grown(what: String, now: Long) =
      Growth.note((info.queryRunId, info.operatorId, what), millis, now)
    val all = grown("", progress.numRowsTotal)
    val rate = all.perHour.map(GrowthPerHour -> _).toMap
    budget.fold(rate) { limits =>
      val used = limits.limits.map(limit => limit -> limit.used(told.values))
      val minutes = used.flatMap { case (limit, now) =>
        grown(s"${limit.state} ${limit.unit}", now).minutesTo(limit.most)
      }
      rate +
        (LimitUsed -> used.map { case (limit, now) => now * 100 / limit.most }.max) +
        (MinutesToLimit -> minutes.minOption.getOrElse(-1L))
    }
  }
}

private[keystate] object SizeWatch {
  final val GrowthPerHour = "keystateGrowthPerHour"
  final val LimitUsed = "keystateLimitUsedPercent"

  /** -1: not at this rate. */
  final val MinutesToLimit = "keystateMinutesToLimit"

  /** The limits with a warning so far, by run. */
  private val warned: JSet[(UUID, Limit)] = Recent.set(1000)
}
