package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.{Column, Dataset, Encoder}

/** What a Dataset is keyed by. */
sealed trait KeyBy[T]

object KeyBy {
  final case class Columns[T](columns: Seq[Column]) extends KeyBy[T]
  final case class Function[T](function: T => Any, encoder: Encoder[_]) extends KeyBy[T]
}

/** A Dataset, what it is keyed by, and what the rows of a key are sorted by. */
final case class KeyedData[T](data: Dataset[T], by: KeyBy[T], order: Seq[Column])
