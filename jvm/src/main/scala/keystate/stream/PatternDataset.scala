package keystate.stream

import org.apache.spark.sql.{Column, DataFrame}

import keystate.OutputTag
import org.apache.spark.sql.keystate.jvm.{KeyedData, OperatorSettings, PatternSettings, ScalaBridge}

/** A keyed Dataset with a pattern; made by `data.keyed(column).pattern(...)`. */
final class PatternDataset[T] private[keystate] (
    data: KeyedData[T],
    of: Pattern,
    settings: OperatorSettings,
    limits: PatternSettings = PatternSettings()
) {

  /** Emits partial matches that `within` has ended, in the columns of the result. */
  def timeoutOutput(tag: OutputTag[_]): PatternDataset[T] = copy(limits.copy(timeouts = Some(tag)))

  /** How many partial matches a key may have, by default 10,000. If there are more, those that began
    * first are dropped, or else the query fails.
    */
  def maxPartialMatches(most: Int, drop: Boolean = false): PatternDataset[T] =
    copy(limits.copy(mostMatches = Some(most), drops = drop))

  /** One row for each match: the key, `match_time`, and these columns, which are expressions over key
    * columns and aggregate functions of parts, such as `first($"login.time")`.
    */
  def select(result: Column, more: Column*): DataFrame =
    ScalaBridge.pattern(data, of.parts, (of.after, of.longest), result +: more, limits, settings)

  /** The elements of each match, with `match_time`, `match_number` and `match_part`. */
  def allRows(): DataFrame =
    ScalaBridge.pattern(data, of.parts, (of.after, of.longest), Nil, limits, settings)

  private def copy(limits: PatternSettings) = new PatternDataset(data, of, settings, limits)
}
