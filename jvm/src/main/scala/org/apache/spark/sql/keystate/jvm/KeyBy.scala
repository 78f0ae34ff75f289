package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.{Column, Encoder}

/** What a Dataset is keyed by. */
sealed trait KeyBy[T]

object KeyBy {
  final case class Columns[T](columns: Seq[Column]) extends KeyBy[T]
  final case class Function[T](function: T => Any, encoder: Encoder[_]) extends KeyBy[T]
}
