package keystate.backend.heap

import java.util.Arrays

import keystate.backend.{BytesMap, ChangeSink, Entry, EntryIterator, KeySort}

/** The entries of a point state: a hash table of addresses of records, with open addressing and
  * linear probing. It stores the hashes, so that growing and probing seldom read a key. Deletion
  * moves later slots of a probe sequence back.
  *
  * The transaction's log lists the addresses of the changed records, each with the previous value,
  * or null if there was none. The mark of a changed record is its index in the log. A mark counts
  * only if the log has this record's address at that index, so marks need not be cleared. A record
  * that the transaction removed keeps its slot until the end of the transaction.
  *
  * @param expected
  *   the expected number of entries, so that the table need not grow; 0 if it is not known
  */
private[heap] final class PointTable(expected: Long) extends KeyGroupTable {
  import PointTable._

  // Upper half: the key's hash, never 0. Lower half: the record's address. A free slot is 0.
  private var slots = new Array[Long](capacityFor(expected))
  private var taken = 0
  private var records = new Records
  // The bytes of records to which no slot points.
  private var garbage = 0L

  private var count = 0
  private var recordBytes = 0L

  private var logged = NoAddresses
  private var olds = NoValues
  private var logLength = 0
  private var changed = 0

  override def size: Int = count
  // A table without entries has its first slots for nothing.
  override def bytes: Long = recordBytes + 8L * (slots.length - InitialCapacity)
  override def changeCount: Int = changed

  override def get(key: Array[Byte]): Array[Byte] = {
    val slot = find(key)
    if (slot < 0) null else records.value(addressAt(slot))
  }

  override def put(key: Array[Byte], value: Array[Byte]): Unit = {
    reserveLog()
    val hash = hashOf(key)
    val slot = find(key, 0, key.length, hash)
    if (slot < 0) {
      val room = freeSlot(slot, key, 0, key.length, hash)
      log(insert(room, hash, records.add(logLength, key, value)), null)
    } else {
      val address = addressAt(slot)
      if (!isLogged(address)) logChange(address)
      else if (records.isRemoved(address) && olds(records.mark(address)) == null) changed += 1
      update(slot, value)
      tidy()
    }
  }

  override def remove(key: Array[Byte]): Boolean = {
    reserveLog()
    val slot = find(key)
    val isThere = slot >= 0 && !records.isRemoved(addressAt(slot))
    if (isThere) {
      val address = addressAt(slot)
      if (!isLogged(address)) logChange(address)
      // Made and removed in the same transaction: no change.
      else if (olds(records.mark(address)) == null) changed -= 1
      discount(address)
      records.remove(address)
    }
    isThere
  }

  override def load(
      key: Array[Byte],
      keyStart: Int,
      keyLength: Int,
      value: Array[Byte],
      valueStart: Int,
      valueLength: Int
  ): Unit = {
    val hash = BytesMap.hash(key, keyStart, keyLength)
    val slot = find(key, keyStart, keyLength, hash)
    if (value != null)
      if (slot >= 0) update(slot, Arrays.copyOfRange(value, valueStart, valueStart + valueLength))
      else {
        val room = freeSlot(slot, key, keyStart, keyLength, hash)
        val record = records.add(0, key, keyStart, keyLength, value, valueStart, valueLength)
        insert(room, hash, record)
      }
    else if (slot >= 0) {
      discount(addressAt(slot))
      erase(slot)
    }
    tidy()
  }

  override def scan(start: Array[Byte], end: Array[Byte], reverse: Boolean): EntryIterator = {
    require(start == null && end == null && !reverse, "a point state has no order to scan in")
    new Scan
  }

  override def writeChanges(family: Int, group: Int, sink: ChangeSink): Unit = {
    val addresses = new Array[Int](changed)
    var n = 0
    var i = 0
    while (i < logLength) {
      if (olds(i) != null || !records.isRemoved(logged(i))) {
        addresses(n) = logged(i)
        n += 1
      }
      i += 1
    }
    KeySort.order(records.keysAt(addresses)).foreach { i =>
      records.writeTo(sink, family, group, addresses(i))
    }
  }

  override def changesCommitted(): Unit = {
    var i = 0
    while (taken > count) {
      if (records.isRemoved(logged(i))) erase(slotOf(logged(i)))
      i += 1
    }
    endTransaction()
  }

  override def rollback(): Unit = {
    var i = 0
    while (i < logLength) {
      val address = logged(i)
      val slot = slotOf(address)
      if (olds(i) != null) update(slot, olds(i))
      else {
        if (!records.isRemoved(address)) discount(address)
        erase(slot)
      }
      i += 1
    }
    endTransaction()
  }

  private def endTransaction(): Unit = {
    logged = NoAddresses
    olds = NoValues
    logLength = 0
    changed = 0
    tidy()
  }

  private def addressAt(slot: Int): Int = slots(slot).toInt

  private def find(key: Array[Byte]): Int = find(key, 0, key.length, hashOf(key))

  /** The key's slot, or the complement of the free slot where it belongs. */
  private def find(key: Array[Byte], keyStart: Int, keyLength: Int, hash: Int): Int = {
    val mask = slots.length - 1
    var slot = hash & mask
    var candidate = slots(slot)
    while (candidate != 0) {
      if (hashIn(candidate) == hash && records.hasKey(candidate.toInt, key, keyStart, keyLength))
        return slot
      slot = (slot + 1) & mask
      candidate = slots(slot)
    }
    ~slot
  }

  private def copyAddresses(): Array[Int] = {
    val addresses = new Array[Int](taken)
    var n = 0
    var slot = 0
    while (n < taken) {
      if (slots(slot) != 0) {
        addresses(n) = addressAt(slot)
        n += 1
      }
      slot += 1
    }
    addresses
  }

  private def slotOf(address: Int): Int = find(records.key(address))

  /** The free slot for a key that `find` did not find; the table grows if it is too full. */
  private def freeSlot(
      found: Int,
      key: Array[Byte],
      keyStart: Int,
      keyLength: Int,
      hash: Int
  ): Int =
    if ((taken + 1) * 5L <= slots.length * 4L) ~found
    else {
      grow()
      ~find(key, keyStart, keyLength, hash)
    }

  /** Puts the record's address into a free slot. Returns the address. */
  private def insert(slot: Int, hash: Int, address: Int): Int = {
    slots(slot) = slotValue(hash, address)
    taken += 1
    count += 1
    recordBytes += records.size(address)
    address
  }

  /** Sets the value of the slot's record; where that does not fit, the slot gets another record. */
  private def update(slot: Int, value: Array[Byte]): Unit = {
    val old = addressAt(slot)
    val wasRemoved = records.isRemoved(old)
    val oldSize = records.size(old)
    if (!records.replace(old, value)) {
      val address = records.add(records.mark(old), records.key(old), value)
      if (isLogged(old)) logged(records.mark(old)) = address
      slots(slot) = slotValue(hashIn(slots(slot)), address)
      garbage += oldSize
    }
    if (wasRemoved) count += 1 else recordBytes -= oldSize
    recordBytes += records.size(addressAt(slot))
  }

  /** Takes a record out of the counts. */
  private def discount(address: Int): Unit = {
    count -= 1
    recordBytes -= records.size(address)
  }

  private def isLogged(address: Int): Boolean = {
    val mark = records.mark(address)
    mark < logLength && logged(mark) == address
  }

  private def logChange(address: Int): Unit = {
    records.setMark(address, logLength)
    log(address, records.value(address))
  }

  private def log(address: Int, old: Array[Byte]): Unit = {
    logged(logLength) = address
    olds(logLength) = old
    logLength += 1
    changed += 1
  }

  // Here and elsewhere, what may run out of memory comes before what changes something: so the
  // transaction can still be rolled back.
  private def reserveLog(): Unit = if (logLength == logged.length) {
    val capacity = Math.max(InitialCapacity, Math.multiplyExact(2, logLength))
    val moreOlds = Arrays.copyOf(olds, capacity)
    logged = Arrays.copyOf(logged, capacity)
    olds = moreOlds
  }

  private def grow(): Unit = {
    val capacity = Math.multiplyExact(slots.length, 2)
    val grown = new Array[Long](capacity)
    slots.foreach { slot =>
      if (slot != 0) {
        var target = hashIn(slot) & (capacity - 1)
        while (grown(target) != 0) target = (target + 1) & (capacity - 1)
        grown(target) = slot
      }
    }
    slots = grown
  }

  /** Frees a slot. The next slot of the probe sequence that may move into the gap does, and leaves
    * the next gap. One may move if its own place, where probing for it begins, is not after the
    * gap.
    */
  private def erase(removed: Int): Unit = {
    garbage += records.size(addressAt(removed))
    taken -= 1
    val mask = slots.length - 1
    var gap = removed
    var slot = (gap + 1) & mask
    while (slots(slot) != 0) {
      val distance = (slot - hashIn(slots(slot))) & mask
      if (distance >= ((slot - gap) & mask)) {
        slots(gap) = slots(slot)
        gap = slot
      }
      slot = (slot + 1) & mask
    }
    slots(gap) = 0
  }

  /** Copies the records to new pages without the garbage, once that is more than a third. The log's
    * addresses and the slots follow.
    */
  private def tidy(): Unit =
    if (garbage > LittleGarbage && garbage > records.bytes / 3) {
      val kept = new Records
      val newSlots = new Array[Long](slots.length)
      val newLogged = logged.clone
      var slot = 0
      while (slot < slots.length) {
        if (slots(slot) != 0) {
          val old = addressAt(slot)
          val address = kept.add(records, old)
          newSlots(slot) = slotValue(hashIn(slots(slot)), address)
          if (isLogged(old)) newLogged(records.mark(old)) = address
        }
        slot += 1
      }
      records = kept
      slots = newSlots
      logged = newLogged
      garbage = 0
    }

  /** The entries at the time when the first one is requested. If an entry is changed or removed
    * before its turn, the scan may return its old value.
    */
  private final class Scan extends EntryIterator {
    private var from: Records = _
    private lazy val snapshot = {
      from = records
      copyAddresses()
    }
    private var position = 0
    private var upcoming: Entry = _

    override def hasNext: Boolean = {
      while (upcoming == null && position < snapshot.length) {
        val value = from.value(snapshot(position))
        if (value != null) upcoming = new Entry(from.key(snapshot(position)), value)
        position += 1
      }
      upcoming != null
    }

    override def next(): Entry = {
      if (!hasNext) Iterator.empty.next()
      val entry = upcoming
      upcoming = null
      entry
    }

    override def close(): Unit = ()
  }
}

private[heap] object PointTable {
  private final val InitialCapacity = 8
  // Up to this many bytes, garbage is not worth a copy of the rest.
  private final val LittleGarbage = 1024
  private val NoAddresses = Array.emptyIntArray
  private val NoValues = new Array[Array[Byte]](0)

  // More room is made only once it is needed: a number in a file must not take all memory.
  private final val LargestExpected = 1L << 20

  /** The power of two of which this number of entries fills at most four fifths. */
  private def capacityFor(entries: Long): Int = {
    val slots = Math.min(entries, LargestExpected).toInt / 4 * 5 + InitialCapacity
    Integer.highestOneBit(slots - 1) << 1
  }

  private def hashOf(key: Array[Byte]): Int = BytesMap.hash(key, key.length)

  private def hashIn(slotValue: Long): Int = (slotValue >>> 32).toInt

  private def slotValue(hash: Int, address: Int): Long =
    hash.toLong << 32 | Integer.toUnsignedLong(address)
}
