package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.spec.StateSpec
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The columns of all keyed states of a task, in the order of the states. */
private[keystate] final class KeyedColumns(
    specs: Seq[StateSpec],
    entries: Seq[FamilyEntries],
    inline: Inline
) {
  val all: Seq[StateColumns] = specs.indices.map { i =>
    StateColumns(specs(i), i, entries(i), inline)
  }

  /** The columns of value states. A message is packed only if all states are of this kind. */
  def ofValues: Seq[ValueStateColumns] = all.collect { case values: ValueStateColumns => values }

  /** The columns that a worker requests by page, and those whose entries it requests by user key.
    */
  val paged: Map[Int, PagedColumns] =
    all.zipWithIndex.collect { case (paged: PagedColumns, i) => i -> paged }.toMap
  val maps: Map[Int, MapStateColumns] =
    all.zipWithIndex.collect { case (map: MapStateColumns, i) => i -> map }.toMap

  private val notes = specs.indices.flatMap(i => UseNotes(specs(i), i, entries(i)))

  /** Stores the changes in a message from the worker, which has one element in the columns for each
    * changed key index. Returns the numbers of entries put and removed.
    */
  def apply(keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): (Long, Long) = {
    notes.foreach(_.removeCleared(keyIndexes, columns))
    val counts = all.map(_.apply(keyIndexes, columns))
    notes.foreach(_.apply(keyIndexes, columns))
    (counts.map(_._1).sum, counts.map(_._2).sum)
  }
}
