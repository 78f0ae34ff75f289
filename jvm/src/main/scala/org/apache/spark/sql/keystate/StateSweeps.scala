package org.apache.spark.sql.keystate

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow

import keystate.keygroup.KeyGroupRange
import keystate.ttl.{TtlEntries, TtlSweep}

/** Removes expired entries at the end of a task, of those states that ask for it.
  *
  * @param sweeps
  *   the store's, by family
  */
private[keystate] final class StateSweeps(
    context: KeyedContext,
    groups: KeyGroupRange,
    sweeps: mutable.HashMap[Int, TtlSweep]
) {
  private val swept = context.spec.states.zipWithIndex.flatMap { case (state, i) =>
    context.entries(i) match {
      case entries: TtlEntries =>
        state.ttl.filter(_.sweepSize > 0).map((_, context.families(i), entries))
      case _ => None
    }
  }
  private val countsRecords = swept.exists { case (ttl, _, _) => ttl.sweepOnRecords }
  private var records = 0L

  /** The task's rows, counted if that matters. */
  def counting(rows: Iterator[InternalRow]): Iterator[InternalRow] =
    if (!countsRecords) rows
    else
      rows.map { row =>
        records += 1
        row
      }

  /** @param changes
    *   how many entries the function wrote and removed
    */
  def run(changes: Long): Unit = swept.foreach { case (ttl, family, entries) =>
    val uses = if (ttl.sweepOnRecords) records else changes
    sweeps.getOrElseUpdate(family, new TtlSweep).run(entries, family, groups, uses * ttl.sweepSize)
  }
}
