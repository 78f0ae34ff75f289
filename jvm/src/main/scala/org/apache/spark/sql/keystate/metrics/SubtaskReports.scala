package org.apache.spark.sql.keystate.metrics

import scala.collection.mutable

import org.apache.spark.util.AccumulatorV2

/** The reports of an operator's subtasks in a micro-batch. A subtask can report more than once: by
  * several attempts, or by a task that runs again for another action or a lost shuffle file. Then
  * one report counts: the last one replaces earlier ones.
  */
private[keystate] final class SubtaskReports[T] extends AccumulatorV2[(Int, T), Map[Int, T]] {
  private val bySubtask = mutable.HashMap.empty[Int, T]

  override def isZero: Boolean = bySubtask.isEmpty
  override def copy(): SubtaskReports[T] = {
    val copied = new SubtaskReports[T]
    copied.bySubtask ++= bySubtask
    copied
  }
  override def reset(): Unit = bySubtask.clear()
  override def add(of: (Int, T)): Unit = bySubtask += of
  override def merge(other: AccumulatorV2[(Int, T), Map[Int, T]]): Unit = bySubtask ++= other.value
  override def value: Map[Int, T] = bySubtask.toMap

  /** All reports made one. */
  def total(none: T)(merge: (T, T) => T): T = value.values.foldLeft(none)(merge)
}
