package org.apache.spark.sql.keystate.size

import keystate.config.Settings
import org.apache.spark.sql.keystate.spec.StateSpec

/** The limits of an operator's state.
  *
  * @param warnShare
  *   the share of a limit from which on there is a warning
  * @param fails
  *   whether a micro-batch above a limit fails
  */
private[keystate] final case class Budget(limits: Seq[Limit], warnShare: Double, fails: Boolean)

/** A quantity that may not exceed `most`.
  *
  * @param state
  *   the only state that counts; None for all of the operator
  * @param setBy
  *   where it was set, for messages
  */
private[keystate] final case class Limit(
    state: Option[String],
    inBytes: Boolean,
    most: Long,
    setBy: String
) {

  /** The quantity now. */
  def used(sizes: Iterable[StateSizes]): Long = sizes.iterator.map { partition =>
    if (inBytes) partition.bytes
    else state.fold(partition.entries.values.sum)(partition.entries.getOrElse(_, 0L))
  }.sum

  def unit: String = if (inBytes) "bytes" else "entries"
}

private[keystate] object Budget {

  /** None without a limit.
    *
    * @param get
    *   the text of a setting, by its name
    */
  def of(states: Seq[StateSpec], get: String => Option[String]): Option[Budget] = {
    val ofOperator = Seq(Settings.MaxEntries -> false, Settings.MaxBytes -> true).flatMap {
      case (setting, inBytes) => setting.in(get).map(Limit(None, inBytes, _, setting.key))
    }
    val ofStates = states.flatMap { state =>
      state.maxEntries.map(Limit(Some(state.name), false, _, "its descriptor"))
    }
    val limits = ofOperator ++ ofStates
    Option.when(limits.nonEmpty)(
      Budget(limits, Settings.WarnShare.of(get), Settings.OnLimit.of(get) == "fail")
    )
  }
}
