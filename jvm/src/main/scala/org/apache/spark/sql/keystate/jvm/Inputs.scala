package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.{Column, Dataset, Encoder}

import keystate.{DeadLetters, MapStateDescriptor, OutputTag}

/** What a Dataset is keyed by. */
sealed trait KeyBy[T]

object KeyBy {
  final case class Columns[T](columns: Seq[Column]) extends KeyBy[T]
  final case class Function[T](function: T => Any, encoder: Encoder[_]) extends KeyBy[T]
}

/** An input of an operator.
  *
  * @param by
  *   what it is keyed by
  * @param order
  *   what the rows of a key are sorted by; none if in no order
  * @param late
  *   the side output of its late rows, if there is to be one
  * @param eventTime
  *   the column that has the event time; None if that is told by the watermark
  */
final case class KeyedData[T](
    data: Dataset[T],
    by: KeyBy[T],
    order: Seq[Column],
    late: Option[OutputTag[_]],
    eventTime: Option[String] = None
) {

  /** This input, of which no row is late. */
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

/** A Dataset to be broadcast, and the states that are made of it. */
final case class BroadcastData(data: Dataset[_], descriptors: Seq[MapStateDescriptor[_, _]])
    extends SecondInputData

/** What an operator is told besides its function and its inputs.
  *
  * @param maxParallelism
  *   None: what the checkpoint or the session says
  * @param onError
  *   what becomes of a row that the function fails on; None: the query fails
  */
final case class OperatorSettings(
    name: Option[String],
    timeMode: String,
    maxParallelism: Option[Int],
    onError: Option[DeadLetters[_]]
)
