package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.{Column, Dataset}

/** A Dataset, what it is keyed by, and what the rows of a key are sorted by. */
final case class KeyedData[T](data: Dataset[T], by: KeyBy[T], order: Seq[Column])
