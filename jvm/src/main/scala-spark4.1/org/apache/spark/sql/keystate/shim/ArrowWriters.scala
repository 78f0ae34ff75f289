package org.apache.spark.sql.keystate.shim

import org.apache.arrow.vector.ValueVector

import org.apache.spark.sql.execution.arrow.ArrowWriter

/** Spark 4.1's writers of Arrow columns. Their class is private to Spark's own package, but what is
  * in it is not. So it is not named here, and the compiler finds out which one it is.
  */
private[keystate] object ArrowWriters {
  final class Making[W](val of: ValueVector => W) {
    type Writer = W
  }

  private[keystate] val making = new Making(ArrowWriter.createFieldWriter(_))

  type FieldWriter = making.Writer

  def of(vector: ValueVector): FieldWriter = making.of(vector)
}
