package org.apache.spark.sql.keystate.shim

import org.apache.arrow.vector.ValueVector

import org.apache.spark.sql.execution.arrow.{ArrowFieldWriter, ArrowWriter}

/** Spark's writers of Arrow columns. */
private[keystate] object ArrowWriters {
  type FieldWriter = ArrowFieldWriter

  def of(vector: ValueVector): FieldWriter = ArrowWriter.createFieldWriter(vector)
}
