package keystate.stream

import java.time.Duration

import org.apache.spark.sql.Column

import keystate.errors.{KeystateErrors, KeystateException}
import keystate.pattern.{AfterMatch, Skips}
import org.apache.spark.sql.keystate.jvm.PatternPart

/** Parts that the elements of a key are matched with, one after the other; the names are those of
  * Flink's CEP. Each method returns a new pattern. What a pattern must not say is
  * `KEYSTATE_DECLARATION`, here or where it is applied.
  */
final class Pattern private (
    private[keystate] val parts: Vector[PatternPart],
    private[keystate] val after: AfterMatch,
    private[keystate] val longest: Option[Duration]
) {

  /** Adds a part whose element is the very next one. */
  def next(part: String): Pattern = append(part, Skips.None)
  def next(group: Pattern): Pattern = append(group, Skips.None)

  /** Adds a part whose element is the next one that meets its condition. */
  def followedBy(part: String): Pattern = append(part, Skips.ToNext)
  def followedBy(group: Pattern): Pattern = append(group, Skips.ToNext)

  /** Adds a part whose element is any later one that meets its condition. */
  def followedByAny(part: String): Pattern = append(part, Skips.Any)
  def followedByAny(group: Pattern): Pattern = append(group, Skips.Any)

  /** Adds that the next element does not meet a condition. */
  def notNext(part: String): Pattern = append(PatternPart(part, Skips.None, absent = Some(true)))

  /** Adds that no element until the next part meets a condition. As the last part it needs `within`.
    */
  def notFollowedBy(part: String): Pattern =
    append(PatternPart(part, Skips.None, absent = Some(false)))

  /** Adds a condition to the last part. Columns are those of the element at hand;
    * `avg($"other.amount")` is over the elements taken before as part `other`.
    */
  def where(condition: Column): Pattern =
    change(
      part => part.copy(where = Some(part.where.fold(condition)(_ && condition))),
      onGroup = false
    )

  /** Lets elements of the last part meet this condition instead of those before. */
  def or(condition: Column): Pattern =
    change(
      part => part.copy(where = Some(part.where.fold(condition)(_ || condition))),
      onGroup = false
    )

  /** Ends the loop of the last part at an element that meets a condition, which is not taken. */
  def until(condition: Column): Pattern = change { part =>
    if (part.until.nonEmpty) refuse("has two conditions for until")
    part.copy(until = Some(condition))
  }

  /** Repeats the last part. */
  def oneOrMore(): Pattern = repeat(1, None)
  def times(times: Int): Pattern = repeat(times, Some(times))
  def times(least: Int, most: Int): Pattern = {
    val repeated = repeat(math.max(least, 1), Some(most))
    if (least == 0) repeated.optional() else repeated
  }
  def timesOrMore(least: Int): Pattern = repeat(least, None)

  /** Lets the last part be left out. */
  def optional(): Pattern = change { part =>
    if (part.absent.nonEmpty) refuse("is absent: it can't be optional")
    part.copy(times = part.times.copy(optional = true))
  }

  /** Leaves no element to the next part that could be one of the last part. */
  def greedy(): Pattern = change(
    part => {
      if (!part.quantified) refuse("is greedy, but comes once")
      part.copy(greedy = true)
    },
    onGroup = false
  )

  /** Skips no element between two of the last part. */
  def consecutive(): Pattern = between(Skips.None)

  /** Skips any elements between two of the last part. */
  def allowCombinations(): Pattern = between(Skips.Any)

  /** Says how long a match may take, in event time; the end does not count. */
  def within(time: Duration): Pattern =
    new Pattern(parts, after, Some(longest.filter(_.compareTo(time) < 0).getOrElse(time)))

  /** Says how long the last part may come after the element before it. */
  def withinPrevious(time: Duration): Pattern =
    change(_.copy(within = Some(time)), onGroup = false)

  private def repeat(least: Int, most: Option[Int]) = change { part =>
    if (part.absent.nonEmpty) refuse("is absent: it can't be repeated")
    if (part.quantified) refuse("has two numbers of times")
    part.copy(times = part.times.copy(least = least, most = most), quantified = true)
  }

  private def between(skips: Skips) = change { part =>
    if (!part.quantified || part.times.skips != Skips.ToNext)
      refuse("is consecutive or allows combinations, but comes once, or is both")
    part.copy(times = part.times.copy(skips = skips))
  }

  private def append(part: String, skips: Skips): Pattern = append(PatternPart(part, skips))

  private def append(group: Pattern, skips: Skips): Pattern = {
    if (group.longest.nonEmpty)
      throw KeystateErrors.declaration("A group of a pattern has no within: give it to the whole.")
    append(PatternPart("", skips, group = group.parts))
  }

  private def append(part: PatternPart) = new Pattern(parts :+ part, after, longest)

  private def change(of: PatternPart => PatternPart, onGroup: Boolean = true): Pattern = {
    if (!onGroup && parts.last.group.nonEmpty)
      throw KeystateErrors.declaration(
        "A group of a pattern has no condition, is not greedy and has no within: give that to its parts."
      )
    new Pattern(parts.init :+ of(parts.last), after, longest)
  }

  private def refuse(problem: String): KeystateException =
    throw KeystateErrors.pattern(parts.last.name, s"$problem.")
}

object Pattern {

  /** A pattern that begins with a part. */
  def begin(part: String): Pattern = begin(part, AfterMatchSkipStrategy.noSkip)

  /** @param skip
    *   which other matches are left out after a match
    */
  def begin(part: String, skip: AfterMatchSkipStrategy): Pattern =
    new Pattern(Vector(PatternPart(part, Skips.Any)), skip.after, None)

  /** A pattern that begins with a group. */
  def begin(group: Pattern): Pattern = begin(group, AfterMatchSkipStrategy.noSkip)
  def begin(group: Pattern, skip: AfterMatchSkipStrategy): Pattern =
    new Pattern(Vector.empty, skip.after, None).append(group, Skips.Any)
}

/** Which other matches are left out after a match. */
final class AfterMatchSkipStrategy private (private[keystate] val after: AfterMatch) {

  /** Fails the query at a match without the part that it skips to, or that begins with it. */
  def throwExceptionOnMiss(): AfterMatchSkipStrategy = after match {
    case to: AfterMatch.To => new AfterMatchSkipStrategy(to.copy(needed = true))
    case _ => this
  }
}

object AfterMatchSkipStrategy {

  /** None: all matches count. */
  def noSkip: AfterMatchSkipStrategy = new AfterMatchSkipStrategy(AfterMatch.NoSkip)

  /** Those that begin with the same element. */
  def skipToNext: AfterMatchSkipStrategy = new AfterMatchSkipStrategy(AfterMatch.ToNext)

  /** Those that begin before the match ends. */
  def skipPastLastEvent: AfterMatchSkipStrategy = new AfterMatchSkipStrategy(AfterMatch.PastLast)

  /** Those that begin before the first element of a part. */
  def skipToFirst(part: String): AfterMatchSkipStrategy =
    new AfterMatchSkipStrategy(AfterMatch.To(part, last = false, needed = false))

  /** Those that begin before the last element of a part. */
  def skipToLast(part: String): AfterMatchSkipStrategy =
    new AfterMatchSkipStrategy(AfterMatch.To(part, last = true, needed = false))
}
