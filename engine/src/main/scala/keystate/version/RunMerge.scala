package keystate.version

import keystate.backend.{Change, RunCursor, RunFormat}

/** Several runs as one: for each key the entry of the newest run that has it.
  *
  * @param cursors
  *   the runs, oldest first; closing this closes them
  * @param keepRemovals
  *   whether removals are kept, which is necessary if an older run could still have the entry
  * @param isExpired
  *   whether an entry counts as removed; not called for removals
  */
private[keystate] final class RunMerge(
    cursors: IndexedSeq[RunCursor],
    keepRemovals: Boolean,
    isExpired: Change => Boolean = _ => false
) extends RunCursor {

  // The next change of each run, null at its end.
  private val heads = new Array[Change](cursors.size)

  // The runs that have a next change, as a heap: the smallest key first, and of equal keys the
  // newest run.
  private val heap = new Array[Int](cursors.size)
  private var live = 0
  cursors.indices.foreach { run =>
    advance(run)
    if (heads(run) != null) {
      heap(live) = run
      live += 1
    }
  }
  (live / 2 - 1 to 0 by -1).foreach(siftDown)
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
    while (change == null && live > 0) {
      val newest = heads(heap(0))
      advanceFirst()
      while (live > 0 && RunFormat.order.equiv(heads(heap(0)), newest)) advanceFirst()
      val entry =
        if (newest.value != null && isExpired(newest)) newest.copy(value = null) else newest
      if (keepRemovals || entry.value != null) change = entry
    }
    change
  }

  private def advance(run: Int): Unit =
    heads(run) = if (cursors(run).hasNext) cursors(run).next() else null

  private def advanceFirst(): Unit = {
    advance(heap(0))
    if (heads(heap(0)) == null) {
      live -= 1
      heap(0) = heap(live)
    }
    siftDown(0)
  }

  private def siftDown(start: Int): Unit = {
    var at = start
    var smallest = -1
    while (smallest != at) {
      if (smallest >= 0) {
        val run = heap(at)
        heap(at) = heap(smallest)
        heap(smallest) = run
        at = smallest
      }
      smallest = at
      val left = 2 * at + 1
      if (left < live && comesBefore(heap(left), heap(smallest))) smallest = left
      if (left + 1 < live && comesBefore(heap(left + 1), heap(smallest))) smallest = left + 1
    }
  }

  private def comesBefore(run: Int, other: Int): Boolean = {
    val order = RunFormat.order.compare(heads(run), heads(other))
    order < 0 || order == 0 && run > other
  }
}
