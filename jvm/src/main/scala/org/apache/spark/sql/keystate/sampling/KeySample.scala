package org.apache.spark.sql.keystate.sampling

import scala.collection.mutable

import org.apache.spark.util.AccumulatorV2

/** What the subtasks of an operator sampled in a micro-batch. A later report of a subtask replaces
  * the one before: its task may run again.
  */
private[keystate] final class KeySample
    extends AccumulatorV2[(Int, SampledKeys), Map[Int, SampledKeys]] {
  private val bySubtask = mutable.HashMap.empty[Int, SampledKeys]

  override def isZero: Boolean = bySubtask.isEmpty
  override def copy(): KeySample = {
    val copied = new KeySample
    copied.bySubtask ++= bySubtask
    copied
  }
  override def reset(): Unit = bySubtask.clear()
  override def add(of: (Int, SampledKeys)): Unit = bySubtask += of
  override def merge(other: AccumulatorV2[(Int, SampledKeys), Map[Int, SampledKeys]]): Unit =
    bySubtask ++= other.value
  override def value: Map[Int, SampledKeys] = bySubtask.toMap

  def total: SampledKeys = value.values.foldLeft(SampledKeys.Empty)(_ merge _)
}
