package org.apache.spark.sql.keystate.jvm

import java.time.Duration

import org.apache.spark.sql.{Column, Dataset, Encoder}

import keystate.{DeadLetters, MapStateDescriptor, OutputTag}

/** The key of a Dataset. */
sealed trait KeyBy[T]

object KeyBy {
  final case class Columns[T](columns: Seq[Column]) extends KeyBy[T]
  final case class Function[T](function: T => Any, encoder: Encoder[_]) extends KeyBy[T]
}

/** An input of an operator.
  *
  * @param by
  *   the key
  * @param order
  *   the sort order of a key's rows; empty for no order
  * @param late
  *   the side output of its late rows, if there is one
  * @param eventTime
  *   the column with the event time; None: the column of the watermark
  */
final case class KeyedData[T](
    data: Dataset[T],
    by: KeyBy[T],
    order: Seq[Column],
    late: Option[OutputTag[_]],
    eventTime: Option[String] = None
) {

  /** This input, without late rows. */
  def withoutLate: KeyedData[T] = copy(late = None)
}

/** The second input of an operator. */
sealed trait SecondInputData

/** An input whose elements the function takes too.
  *
  * @param merged
  *   whether the elements of both inputs come by the first column in their orders
  */
final case class ConnectedData(input: KeyedData[_], merged: Boolean) extends SecondInputData

/** A batch Dataset, whose elements the function is given before all others. */
final case class InitialData(input: KeyedData[_]) extends SecondInputData

/** A Dataset to broadcast, and the states for its content. */
final case class BroadcastData(data: Dataset[_], descriptors: Seq[MapStateDescriptor[_, _]])
    extends SecondInputData

/** An operator's settings besides its function and its inputs.
  *
  * @param maxParallelism
  *   None: the number of the checkpoint or the session
  * @param onError
  *   the policy for a row whose call fails; None: the query fails
  */
final case class OperatorSettings(
    name: Option[String],
    timeMode: String,
    maxParallelism: Option[Int],
    onError: Option[DeadLetters[_]]
)

/** Windows for aggregates of columns. All times are in ms.
  *
  * @param bounds
  *   size, slide and offset; or the gap of sessions
  * @param late
  *   the side output of rows that are too late, if there is one
  */
final case class ColumnWindows private (
    bounds: Either[Long, (Long, Long, Long)],
    byEventTime: Boolean,
    lateness: Long,
    late: Option[OutputTag[_]]
)

object ColumnWindows {

  /** Whether windows go by event time, how long they are kept for late rows, and where rows go that
    * are too late.
    */
  type Ends = (Boolean, Long, Option[OutputTag[_]])

  def fixed(size: Long, slide: Long, offset: Long, ends: Ends): ColumnWindows =
    ColumnWindows(Right((size, slide, offset)), ends._1, ends._2, ends._3)

  def sessions(gap: Long, ends: Ends): ColumnWindows =
    ColumnWindows(Left(gap), ends._1, ends._2, ends._3)
}

/** How a join as of a time matches.
  *
  * @param leftOn
  *   the column with the time of a left element; `rightOn` is that of a right one
  * @param exact
  *   whether the times may be equal
  * @param inner
  *   whether elements without a match are left out
  * @param waits
  *   whether an element waits until nothing can come any more that it would be joined with
  * @param deleted
  *   the right column that says that an element deletes what its key had
  */
final case class AsOfSettings(
    leftOn: String,
    rightOn: String,
    direction: String,
    tolerance: Option[Duration],
    exact: Boolean,
    suffix: String,
    inner: Boolean,
    waits: Boolean,
    deleted: Option[String]
)

/** How many Datasets are joined.
  *
  * @param on
  *   the column with the time of each one's elements; None: that of the watermark
  * @param bounds
  *   how far the times of a result's elements may be apart; or how far the second one's is after the
  *   first one's, in us
  * @param outer
  *   whether results go out too that lack elements
  * @param suffixes
  *   for each Dataset what is added to the names of columns that an earlier one has too
  * @param earliest
  *   the name of a column for a result's earliest time, if there is one
  * @param late
  *   the side output of late elements, if there is one
  */
final case class JoinAllSettings(
    on: Seq[Option[String]],
    bounds: Either[Duration, (Long, Long)],
    outer: Boolean,
    suffixes: Seq[String],
    earliest: Option[String],
    late: Option[OutputTag[_]]
)

/** What a pattern may keep.
  *
  * @param timeouts
  *   the side output of partial matches whose time is over
  * @param drops
  *   whether partial matches are dropped if there are more than `mostMatches` of a key
  */
final case class PatternSettings(
    timeouts: Option[OutputTag[_]] = None,
    mostMatches: Option[Int] = None,
    drops: Boolean = false
)
