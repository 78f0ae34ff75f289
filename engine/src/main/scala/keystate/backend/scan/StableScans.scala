package keystate.backend.scan

import java.util.{Arrays, TreeMap}

import scala.collection.mutable

import keystate.backend.{BytewiseOrder, Entry, EntryIterator}

/** Scans of a family whose entries have an order, which show them as they were when the scan began.
  * What a backend's own scan shows of changes that are made meanwhile differs between backends, and
  * a micro-batch may be done again on another one.
  *
  * Before an entry changes that an open scan has not come to, its value is noted for that scan,
  * which gives it in place of what is stored by then. To change what was given last, or lies
  * behind, costs nothing. So a scan that removes what it is given reads no entry twice.
  *
  * Not all who begin a scan end it: a question whether there is any entry often does not. So a scan
  * of one key's entries reads some at once and is over when these are all; and of many that are
  * open the first ones are read to their end. One thread at a time.
  *
  * @param get
  *   the present value of an entry, null if there is none
  */
final class StableScans(get: (Int, Array[Byte]) => Array[Byte]) {
  import StableScans._

  private val open = mutable.ArrayBuffer.empty[Scan]

  /** Must be called before an entry is put or removed. */
  def changing(group: Int, key: Array[Byte]): Unit = {
    var i = 0
    while (i < open.length) {
      open(i).changing(group, key)
      i += 1
    }
  }

  /** Begins a scan. It is over when it is closed or was read to its end.
    *
    * @param bounds
    *   the keys it takes: from the first (null: all) until before the second (null: all)
    * @param isOfOneKey
    *   whether it takes the entries of one key only
    * @param scanOf
    *   a backend's scan of a group within the bounds
    * @param of
    *   makes a scan of groups' scans
    */
  def scan(
      bounds: (Array[Byte], Array[Byte]),
      isOfOneKey: Boolean,
      scanOf: Int => EntryIterator,
      of: (Int => EntryIterator) => EntryIterator
  ): EntryIterator = {
    val begun = new Scan(bounds._1, bounds._2, isOfOneKey)
    begun.entries = of(group => new GroupEntries(begun.notesOf(group), scanOf(group)))
    open += begun
    if (isOfOneKey) {
      begun.readAhead(FewEntries)
      if (open.length > MostOpen) open.find(_.isOfOneKey).foreach(_.readAhead(Int.MaxValue))
    }
    begun
  }

  /** What an open scan has to know of one group. */
  private final class GroupNotes {
    // The key given last; null at first.
    var last: Array[Byte] = _
    var isOver = false
    // The values, as the scan began, of entries that have changed since. Null if there was none.
    val before = new TreeMap[Array[Byte], Array[Byte]](BytewiseOrder.comparator)

    def isAhead(key: Array[Byte]): Boolean =
      !isOver && (last == null || Arrays.compareUnsigned(key, last) > 0)

    def next: java.util.Map.Entry[Array[Byte], Array[Byte]] =
      if (before.isEmpty) null
      else if (last == null) before.firstEntry
      else before.higherEntry(last)
  }

  private final class Scan(start: Array[Byte], end: Array[Byte], val isOfOneKey: Boolean)
      extends EntryIterator {
    var entries: EntryIterator = _
    private val groups = new mutable.LongMap[GroupNotes]
    private val ahead = mutable.Queue.empty[Entry]
    private var isOver = false

    override def hasNext: Boolean = ahead.nonEmpty || !isOver && {
      val more = entries.hasNext
      if (!more) finish()
      more
    }

    override def next(): Entry = if (ahead.nonEmpty) ahead.dequeue() else entries.next()

    override def close(): Unit = {
      ahead.clear()
      finish()
    }

    /** Reads so many entries more, to be given later. */
    def readAhead(most: Int): Unit = {
      var read = 0
      while (!isOver && read < most)
        if (entries.hasNext) {
          ahead += entries.next()
          read += 1
        } else finish()
    }

    def notesOf(group: Int): GroupNotes = groups.getOrElseUpdate(group.toLong, new GroupNotes)

    def changing(group: Int, key: Array[Byte]): Unit = {
      val isInside = (start == null || Arrays.compareUnsigned(key, start) >= 0) &&
        (end == null || Arrays.compareUnsigned(key, end) < 0)
      if (isInside) {
        val notes = notesOf(group)
        if (notes.isAhead(key) && !notes.before.containsKey(key))
          notes.before.put(key, get(group, key)): Unit
      }
    }

    private def finish(): Unit = if (!isOver) {
      isOver = true
      open -= this
      entries.close()
    }
  }

  /** A group's entries, of which those that have changed are given as they were. */
  private final class GroupEntries(notes: GroupNotes, entries: EntryIterator)
      extends EntryIterator {
    // The entry of the backend that comes next, and the one that this gives next.
    private var head: Entry = _
    private var upcoming: Entry = _

    override def hasNext: Boolean = {
      if (upcoming == null && !notes.isOver) {
        upcoming = find()
        notes.isOver = upcoming == null
      }
      upcoming != null
    }

    override def next(): Entry = {
      if (!hasNext) Iterator.empty.next()
      val entry = upcoming
      upcoming = null
      notes.last = entry.key
      entry
    }

    override def close(): Unit = {
      notes.isOver = true
      upcoming = null
      entries.close()
    }

    private def find(): Entry = {
      var found: Entry = null
      var more = true
      while (found == null && more) {
        if (head == null && entries.hasNext) head = entries.next()
        val noted = notes.next
        if (head == null && noted == null) more = false
        else {
          val order =
            if (noted == null) -1
            else if (head == null) 1
            else Arrays.compareUnsigned(head.key, noted.getKey)
          if (order < 0) found = head
          else if (noted.getValue != null) found = new Entry(noted.getKey, noted.getValue)
          // There was none when the scan began. It is behind now.
          else notes.last = noted.getKey
          if (order <= 0) head = null
        }
      }
      found
    }
  }
}

private object StableScans {

  /** As many a scan of one key's entries reads at once. */
  private final val FewEntries = 16

  /** As many may be open at a time, but for those of more than one key. */
  private final val MostOpen = 32
}
