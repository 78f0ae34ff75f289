package keystate.backend.scan

import java.lang.ref.WeakReference
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
  * of one key's entries reads some at once, and is over when these are all. Of the others of one
  * key only some keep the backend's scan; the rest begin another where they were if somebody asks
  * again, and nothing is noted for those that nobody holds any more. One thread at a time.
  *
  * @param get
  *   the present value of an entry, null if there is none
  */
final class StableScans(get: (Int, Array[Byte]) => Array[Byte]) {
  import StableScans._

  // Those of more than one key.
  private val wide = mutable.ArrayBuffer.empty[Scan]
  private val ofOneKey = new mutable.LongMap[mutable.ArrayBuffer[WeakReference[Scan]]]
  // Those of one key that have a scan of the backend, the oldest first.
  private val running = mutable.ArrayDeque.empty[Scan]
  private var closed = false

  /** Must be called before an entry is put or removed. */
  def changing(group: Int, key: Array[Byte]): Unit = {
    var i = 0
    while (i < wide.length) {
      wide(i).changing(group, key)
      i += 1
    }
    if (ofOneKey.nonEmpty) {
      val scans = ofOneKey.getOrNull(group.toLong)
      if (scans != null) {
        i = scans.length - 1
        while (i >= 0) {
          val scan = scans(i).get
          if (scan != null && !scan.isOver) scan.changing(group, key)
          else {
            scans(i) = scans.last
            scans.dropRightInPlace(1)
          }
          i -= 1
        }
      }
    }
  }

  /** Begins a scan of several groups. It is over when it is closed or was read to its end.
    *
    * @param bounds
    *   the keys it takes: from the first (null: all) until before the second (null: all)
    * @param scanOf
    *   a backend's scan of a group within the bounds, from a key on if that is not null
    * @param of
    *   makes a scan of groups' scans
    */
  def scan(
      bounds: (Array[Byte], Array[Byte]),
      scanOf: (Int, Array[Byte]) => EntryIterator,
      of: (Int => EntryIterator) => EntryIterator
  ): EntryIterator = {
    val begun = new Scan(bounds, scanOf, of, AllGroups)
    wide += begun
    begun
  }

  /** Begins a scan of the entries of one key, which are in one group. */
  def scanOfKey(
      bounds: (Array[Byte], Array[Byte]),
      scanOf: (Int, Array[Byte]) => EntryIterator,
      group: Int
  ): EntryIterator = {
    val begun = new Scan(bounds, scanOf, _(group), group)
    begun.readSome()
    if (!begun.isOver)
      ofOneKey.getOrElseUpdate(group.toLong, mutable.ArrayBuffer.empty) += new WeakReference(begun)
    begun
  }

  /** Ends all scans. */
  def close(): Unit = {
    closed = true
    (wide ++ running).foreach(_.close())
    ofOneKey.clear()
  }

  private def runs(scan: Scan): Unit = {
    running += scan
    if (running.length > MostRunning) running.head.suspend()
  }

  /** What an open scan has to know of one group. */
  private final class GroupNotes {
    // The key given last; null at first.
    var last: Array[Byte] = _
    var isOver = false
    // The values, as the scan began, of entries that have changed since. Null if there was none.
    private var before: TreeMap[Array[Byte], Array[Byte]] = _

    def changing(group: Int, key: Array[Byte]): Unit = {
      val isAhead = !isOver && (last == null || Arrays.compareUnsigned(key, last) > 0)
      if (isAhead && (before == null || !before.containsKey(key))) {
        if (before == null) before = new TreeMap(BytewiseOrder.comparator)
        before.put(key, get(group, key)): Unit
      }
    }

    /** The next of these entries. */
    def next: java.util.Map.Entry[Array[Byte], Array[Byte]] =
      if (before == null) null
      else if (last == null) before.firstEntry
      else before.higherEntry(last)

    /** The smallest key after the one given last. */
    def rest: Array[Byte] = if (last == null) null else Arrays.copyOf(last, last.length + 1)
  }

  private final class Scan(
      bounds: (Array[Byte], Array[Byte]),
      scanOf: (Int, Array[Byte]) => EntryIterator,
      of: (Int => EntryIterator) => EntryIterator,
      group: Int
  ) extends EntryIterator {
    private val isOfOneKey = group != AllGroups
    private val only = if (isOfOneKey) new GroupNotes else null
    private val groups = if (isOfOneKey) null else new mutable.LongMap[GroupNotes]
    private var ahead = List.empty[Entry]
    // Null if it is suspended.
    private var entries: EntryIterator = _
    private var over = false

    def isOver: Boolean = over

    override def hasNext: Boolean = (ahead.nonEmpty && !closed) || hasMore

    override def next(): Entry = ahead match {
      case entry :: rest =>
        ahead = rest
        entry
      case Nil => if (hasMore) entries.next() else Iterator.empty.next()
    }

    override def close(): Unit = {
      ahead = Nil
      finish()
    }

    /** Reads some entries, to be given later. */
    def readSome(): Unit = {
      val read = List.newBuilder[Entry]
      var count = 0
      var bytes = 0L
      while (count < FewEntries && bytes < FewBytes && hasMore) {
        val entry = entries.next()
        read += entry
        count += 1
        bytes += entry.key.length + entry.value.length
      }
      ahead = read.result()
      // That was the last one, perhaps.
      hasMore: Unit
    }

    /** Gives up the backend's scan until somebody asks again. */
    def suspend(): Unit = {
      running -= this
      entries.close()
      entries = null
    }

    def changing(group: Int, key: Array[Byte]): Unit = {
      val (start, end) = bounds
      val isInside = (start == null || Arrays.compareUnsigned(key, start) >= 0) &&
        (end == null || Arrays.compareUnsigned(key, end) < 0)
      if (isInside) notesOf(group).changing(group, key)
    }

    private def hasMore: Boolean = !over && !closed && {
      if (entries == null) {
        entries = of { group =>
          val notes = notesOf(group)
          new GroupEntries(notes, scanOf(group, notes.rest))
        }
        if (isOfOneKey) runs(this)
      }
      val more = entries.hasNext
      if (!more) finish()
      more
    }

    private def notesOf(group: Int): GroupNotes =
      if (isOfOneKey) only else groups.getOrElseUpdate(group.toLong, new GroupNotes)

    private def finish(): Unit = if (!over) {
      over = true
      if (!isOfOneKey) wide -= this
      if (entries != null) {
        if (isOfOneKey) running -= this
        entries.close()
      }
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

    override def close(): Unit = entries.close()

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
  private final val AllGroups = -1

  /** What a scan of one key's entries reads at once. */
  private final val FewEntries = 4
  private final val FewBytes = 4096L

  /** How many of one key keep the backend's scan. On RocksDB each holds blocks and files. */
  private final val MostRunning = 32
}
