package keystate.backend

import java.lang.ref.{ReferenceQueue, WeakReference}
import java.util.{Arrays, TreeMap}

import scala.collection.mutable

/** Scans of a family with ordered entries, which return the entries as they were when the scan
  * began. Backends differ in what their own scans show of changes that are made meanwhile, and a
  * micro-batch may be run again on another backend.
  *
  * Before an entry changes that an open scan has not reached, its value is noted for that scan, and
  * the scan later returns the noted value. Changing the entry that a scan returned last, or an
  * earlier one, costs nothing. So a scan that removes the entries it returns reads no entry twice.
  *
  * Many scans are never finished: a check whether there is any entry often stops early. So a scan
  * of one key's entries first reads a few entries, and is over if these are all. The other scans of
  * one key share the notes of their group, as long as one of the scans is reachable. Only some of
  * them keep the backend's scan open; the rest open another one at their position when the next
  * entry is requested. One thread at a time.
  *
  * @param get
  *   the present value of an entry, null if there is none
  */
final class StableScans(get: (Int, Array[Byte]) => Array[Byte]) {
  import StableScans._

  // Scans of more than one key.
  private val wide = mutable.ArrayBuffer.empty[Scan]
  // The notes for scans of one key, by group. Only groups with such scans are in it.
  private val logs = new mutable.LongMap[Log]
  private val unheld = new ReferenceQueue[Scan]
  // Scans of one key that have an open scan of the backend, oldest first.
  private val running = mutable.ArrayDeque.empty[Scan]
  private var closed = false

  /** Must be called before an entry is put or removed. */
  def changing(group: Int, key: Array[Byte]): Unit = {
    var i = 0
    while (i < wide.length) {
      wide(i).changing(group, key)
      i += 1
    }
    if (logs.nonEmpty) {
      forgetUnheld()
      val log = logs.getOrNull(group.toLong)
      if (log != null) log.changing(key)
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
    val begun = new Scan(bounds, scanOf, of, isOfOneKey = false)
    wide += begun
    begun
  }

  /** Begins a scan of one key's entries, which are in one group. */
  def scanOfKey(
      bounds: (Array[Byte], Array[Byte]),
      scanOf: (Int, Array[Byte]) => EntryIterator,
      group: Int
  ): EntryIterator = {
    forgetUnheld()
    val begun = new Scan(bounds, scanOf, _(group), isOfOneKey = true)
    begun.readSome()
    if (!begun.isOver) begun.noteIn(logs.getOrElseUpdate(group.toLong, new Log(group)))
    begun
  }

  /** Ends all scans. */
  def close(): Unit = {
    closed = true
    (wide ++ running).foreach(_.close())
    logs.clear()
  }

  /** Removes scans that were garbage collected: they need no notes. */
  private def forgetUnheld(): Unit = {
    var reference = unheld.poll()
    while (reference != null) {
      reference.asInstanceOf[Held].end()
      reference = unheld.poll()
    }
  }

  private def runs(scan: Scan): Unit = {
    running += scan
    if (running.length > MostRunning) running.head.suspend()
  }

  /** The position of a scan in one group, and the notes for the scan. */
  private abstract class GroupNotes {
    // The key given last; null at first.
    var last: Array[Byte] = _
    var isOver = false

    /** The next changed entry, as it was when the scan began; the value is null if there was no
      * entry.
      */
    def next: Entry

    /** The smallest key after the one given last. */
    def rest: Array[Byte] = if (last == null) null else Arrays.copyOf(last, last.length + 1)
  }

  /** The notes of a scan of several groups. */
  private final class OwnNotes extends GroupNotes {
    private val before = new TreeMap[Array[Byte], Array[Byte]](BytewiseOrder.comparator)

    def changing(group: Int, key: Array[Byte]): Unit = {
      val isAhead = !isOver && (last == null || Arrays.compareUnsigned(key, last) > 0)
      if (isAhead && !before.containsKey(key)) before.put(key, get(group, key)): Unit
    }

    override def next: Entry =
      if (before.isEmpty) null
      else {
        val noted = if (last == null) before.firstEntry else before.higherEntry(last)
        if (noted == null) null else new Entry(noted.getKey, noted.getValue)
      }
  }

  /** An entry's value before a change, and the number of the group's scans that had begun by then.
    */
  private final class Note(val begun: Long, val before: Array[Byte], val older: Note)

  /** The notes of a group for its scans of one key: for each entry the value before a change, once
    * for all scans that had begun by then.
    */
  private final class Log(group: Int) {
    private var begun = 0L
    private val notes = new TreeMap[Array[Byte], Note](BytewiseOrder.comparator)
    // Else they would be garbage before their scans are.
    private val held = mutable.HashSet.empty[Held]

    def changing(key: Array[Byte]): Unit = {
      val newest = notes.get(key)
      if (newest == null || newest.begun < begun)
        notes.put(key, new Note(begun, get(group, key), newest)): Unit
    }

    /** The first changed entry in the key range, as it was for the scan of this number. */
    def first(from: Array[Byte], until: Array[Byte], number: Long): Entry = {
      var found: Entry = null
      var noted = notes.ceilingEntry(from)
      while (
        found == null && noted != null &&
        (until == null || Arrays.compareUnsigned(noted.getKey, until) < 0)
      ) {
        var note = noted.getValue
        if (note.begun < number) noted = notes.higherEntry(noted.getKey)
        else {
          while (note.older != null && note.older.begun >= number) note = note.older
          found = new Entry(noted.getKey, note.before)
        }
      }
      found
    }

    /** Takes notes for a scan from now on. */
    def begin(scan: Scan): Held = {
      begun += 1
      val reference = new Held(scan, this, begun)
      held += reference
      reference
    }

    def end(reference: Held): Unit = {
      held -= reference
      if (held.isEmpty) logs -= group.toLong
    }
  }

  /** A scan's position in the undo log; dropped when the scan is garbage collected. */
  private final class Held(scan: Scan, val log: Log, val number: Long)
      extends WeakReference[Scan](scan, unheld) {
    def end(): Unit = log.end(this)
  }

  /** The notes of a scan of one key, in a log once it has one. */
  private final class SharedNotes(start: Array[Byte], end: Array[Byte]) extends GroupNotes {
    var held: Held = _

    override def next: Entry =
      if (held == null) null
      else held.log.first(if (last == null) start else rest, end, held.number)
  }

  private final class Scan(
      bounds: (Array[Byte], Array[Byte]),
      scanOf: (Int, Array[Byte]) => EntryIterator,
      of: (Int => EntryIterator) => EntryIterator,
      isOfOneKey: Boolean
  ) extends EntryIterator {
    private val shared = if (isOfOneKey) new SharedNotes(bounds._1, bounds._2) else null
    private val own = if (isOfOneKey) null else new mutable.LongMap[OwnNotes]
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
      // That may have been the last entry.
      hasMore: Unit
    }

    def noteIn(log: Log): Unit = shared.held = log.begin(this)

    /** Closes the backend's scan until the next entry is requested. */
    def suspend(): Unit = {
      running -= this
      entries.close()
      entries = null
    }

    def changing(group: Int, key: Array[Byte]): Unit = {
      val (start, end) = bounds
      val isInside = (start == null || Arrays.compareUnsigned(key, start) >= 0) &&
        (end == null || Arrays.compareUnsigned(key, end) < 0)
      if (isInside) own.getOrElseUpdate(group.toLong, new OwnNotes).changing(group, key)
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
      if (isOfOneKey) shared else own.getOrElseUpdate(group.toLong, new OwnNotes)

    private def finish(): Unit = if (!over) {
      over = true
      if (!isOfOneKey) wide -= this
      else if (shared.held != null) {
        shared.held.clear()
        shared.held.end()
      }
      if (entries != null) {
        if (isOfOneKey) running -= this
        entries.close()
      }
    }
  }

  /** A group's entries, in which changed entries appear with their old values. */
  private final class GroupEntries(notes: GroupNotes, entries: EntryIterator)
      extends EntryIterator {
    // The backend's next entry, and the entry that this iterator returns next.
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
            else Arrays.compareUnsigned(head.key, noted.key)
          if (order < 0) found = head
          else if (noted.value != null) found = noted
          // There was none when the scan began. It is behind now.
          else notes.last = noted.key
          if (order <= 0) head = null
        }
      }
      found
    }
  }
}

private object StableScans {

  /** The number of entries that a scan of one key reads first. */
  private final val FewEntries = 4
  private final val FewBytes = 4096L

  /** How many scans of one key keep the backend's scan open. On RocksDB each one pins blocks and
    * files.
    */
  private final val MostRunning = 32
}
