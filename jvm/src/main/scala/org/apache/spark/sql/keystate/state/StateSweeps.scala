package org.apache.spark.sql.keystate.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow

import keystate.backend.TtlSweep
import keystate.keygroup.KeyGroupRange
import org.apache.spark.sql.keystate.spec.StateSpec

/** Removes expired entries at the end of a task, from the states that ask for it.
  *
  * @param entries
  *   the entries of each state
  * @param sweeps
  *   the store's sweeps, by family, with their positions
  */
private[keystate] final class StateSweeps(
    states: Seq[StateSpec],
    entries: Seq[FamilyEntries],
    groups: KeyGroupRange,
    sweeps: mutable.HashMap[Int, TtlSweep]
) {
  private val swept = states.zip(entries).flatMap { case (state, own) =>
    state.ttl.filter(_.sweepSize > 0 && own.expires).map((_, own))
  }
  private val countsRecords = swept.exists { case (ttl, _) => ttl.sweepOnRecords }
  private var records = 0L

  /** The task's rows. They are counted if a state is swept by their number. */
  def counting(rows: Iterator[InternalRow]): Iterator[InternalRow] =
    if (!countsRecords) rows
    else
      rows.map { row =>
        records += 1
        row
      }

  /** Sweeps.
    *
    * @param changes
    *   how many entries the function wrote and removed
    */
  def run(changes: Long): Unit = swept.foreach { case (ttl, own) =>
    val uses = if (ttl.sweepOnRecords) records else changes
    own.sweep(sweeps.getOrElseUpdate(own.family, new TtlSweep), groups, uses * ttl.sweepSize)
  }
}
