package keystate.stream

import java.time.Duration

import org.apache.spark.sql.DataFrame

import keystate.OutputTag
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.jvm.{JoinAllSettings, ScalaBridge}

/** Two streams, or two tables, that are joined by how far their times are apart; made by
  * `intervalJoin`.
  */
final class IntervalJoined private[keystate] (left: KeyedRowStream[_], right: KeyedRowStream[_]) {

  /** Joins each element of the first one with those of the second that are `lower` to `upper` after
    * it. The result has the key's columns, then the other columns of each.
    *
    * @param lower
    *   may be negative; so may `upper`, which is not before it
    * @param lowerExclusive
    *   whether elements just at the bound are left out; so does `upperExclusive`
    * @param on
    *   the columns with the times, timestamps; empty: those of the watermarks. Tables need them
    * @param outer
    *   whether elements of the first one go out that are joined with none, with nulls
    * @param suffix
    *   is added to the name of a column of the second one that the first one has too
    * @param late
    *   a side output for elements behind the watermark, with the result's columns
    */
  def between(
      lower: Duration,
      upper: Duration,
      lowerExclusive: Boolean = false,
      upperExclusive: Boolean = false,
      on: Seq[String] = Nil,
      outer: Boolean = false,
      suffix: String = "_right",
      late: Option[OutputTag[_]] = None
  ): DataFrame = {
    val bounds = (
      lower.toNanos / 1000 + (if (lowerExclusive) 1 else 0),
      upper.toNanos / 1000 - (if (upperExclusive) 1 else 0)
    )
    if (bounds._1 > bounds._2)
      throw KeystateErrors.declaration(s"Nothing is between $lower and $upper.")
    if (on.nonEmpty && on.size != 2)
      throw KeystateErrors.declaration(s"on has a column for each of both, not ${on.size}.")
    val join = JoinAllSettings(
      if (on.isEmpty) Seq(None, None) else on.map(Some(_)),
      Right(bounds),
      outer,
      Seq("", suffix),
      None,
      late
    )
    val inputs = Seq[KeyedRowStream[_]](left, right).map(_.keyedData(None))
    ScalaBridge.joinAll(inputs, join, left.settings.operator)
  }
}
