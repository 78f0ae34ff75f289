package keystate.run

import scala.collection.mutable

import keystate.backend.{Change, RunCursor, RunFormat}

/** Several runs as one: for each key the entry of the newest run that has it.
  *
  * @param cursors
  *   the runs, oldest first; closing this closes them
  * @param keepRemovals
  *   whether removals are kept, which they must be if an older run could still have the entry
  * @param isExpired
  *   tells the entries to be taken as removed; not asked about removals
  */
private[keystate] final class RunMerge(
    cursors: IndexedSeq[RunCursor],
    keepRemovals: Boolean,
    isExpired: Change => Boolean = _ => false
) extends RunCursor {

  private final class Head(val change: Change, val age: Int)

  // The smallest key first; among equal keys the newest run.
  private val heads = mutable.PriorityQueue.empty[Head] { (a: Head, b: Head) =>
    val byKey = RunFormat.order.compare(b.change, a.change)
    if (byKey != 0) byKey else Integer.compare(a.age, b.age)
  }
  cursors.indices.foreach(advance)
  private var upcoming = take()

  override def hasNext: Boolean = upcoming != null

  override def next(): Change = {
    val change = upcoming
    upcoming = take()
    change
  }

  override def close(): Unit = cursors.foreach(_.close())

  private def take(): Change = {
    var change: Change = null
    while (change == null && heads.nonEmpty) {
      val newest = heads.dequeue()
      advance(newest.age)
      while (heads.nonEmpty && RunFormat.order.equiv(heads.head.change, newest.change))
        advance(heads.dequeue().age)
      val entry =
        if (newest.change.value != null && isExpired(newest.change))
          newest.change.copy(value = null)
        else newest.change
      if (keepRemovals || entry.value != null) change = entry
    }
    change
  }

  private def advance(cursor: Int): Unit =
    if (cursors(cursor).hasNext) heads += new Head(cursors(cursor).next(), cursor)
}
