package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec

/** Spark's operator, the base, except that it does not check the provider's name. */
private[keystate] final class TransformWithStateOnKeystate(base: TransformWithStateExec)
    extends TransformWithStateShim(base) {
  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit = ()

  // Not equal to the node that it replaces: otherwise a parent would keep that one.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[TransformWithStateOnKeystate]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode

  override protected def withBase(base: TransformWithStateExec): TransformWithStateExec =
    new TransformWithStateOnKeystate(base)
}
