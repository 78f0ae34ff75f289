package org.apache.spark.sql.keystate.size

import java.util.{Set => JSet, UUID}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.types.StructType

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.metadata.StateChanges
import org.apache.spark.sql.keystate.metrics.Recent

/** Checks the size of an operator's state after a micro-batch, in the driver.
  *
  * The decision depends only on the state: with limits of entries a micro-batch that is run again
  * fails again.
  *
  * @param name
  *   the operator's name
  * @param budget
  *   None without a limit
  * @param sizes
  *   the sizes of the partitions after the micro-batch; empty without a limit
  */
private[keystate] final class SizeWatch(
    info: StatefulOperatorStateInfo,
    name: Option[String],
    budget: Option[Budget],
    sizes: => Map[Int, StateSizes],
    keySchema: => StructType,
    conf: => Configuration
) extends Logging {
  import SizeWatch._

  /** Warns, or throws if a limit was passed. */
  def check(): Unit = for (limits <- budget; limit <- limits.limits) {
    val used = limit.used(sizes.values)
    if (used > limit.most && limits.fails) throw error(limit, used)
    val isNew = used >= limit.most * limits.warnShare && warned.add((info.queryRunId, limit))
    if (isNew) logWarning(s"${told(limit, used)}. See docs/running/budgets.md")
  }

  private def error(limit: Limit, used: Long) = {
    val state = limit.state.getOrElse {
      sizes.values.flatMap(_.entries).groupMapReduce(_._1)(_._2)(_ + _).maxBy(_._2)._1
    }
    val folder = new Path(info.checkpointLocation, s"${info.operatorId}")
    val largest = new LargestKeys(folder, keySchema, info.storeVersion + 1, sizes, conf)
    KeystateErrors.stateLimit(told(limit, used), state, largest.of(state), info.storeVersion)
  }

  private def told(limit: Limit, used: Long): String = {
    val what = limit.state.fold("The state")(state => s"State '$state'")
    s"$what of ${StateChanges.describe(info, name)} has $used of at most ${limit.most} " +
      s"${limit.unit} (${limit.setBy})"
  }

  /** The metrics for the progress.
    *
    * @param millis
    *   when the micro-batch began
    * @param entries
    *   the entries of all states, after it
    */
  def metrics(millis: Long, entries: Long): Map[String, Long] = {
    def grown(what: String, now: Long) =
      Growth.note((info.queryRunId, info.operatorId, what), millis, now)
    val all = grown("", entries)
    val rate = all.perHour.map(GrowthPerHour -> _).toMap
    budget.fold(rate) { limits =>
      val used = limits.limits.map(limit => limit -> limit.used(sizes.values))
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
