package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.{Column, Dataset, Encoder}

import keystate.MapStateDescriptor

/** What a Dataset is keyed by. */
sealed trait KeyBy[T]

object KeyBy {
  final case class Columns[T](columns: Seq[Column]) extends KeyBy[T]
  final case class Function[T](function: T => Any, encoder: Encoder[_]) extends KeyBy[T]
}

/** A Dataset, what it is keyed by, and what the rows of a key are sorted by. */
final case class KeyedData[T](data: Dataset[T], by: KeyBy[T], order: Seq[Column])

/** A Dataset to be broadcast, and the states that are made of it. */
final case class BroadcastData(data: Dataset[_], descriptors: Seq[MapStateDescriptor[_, _]])
