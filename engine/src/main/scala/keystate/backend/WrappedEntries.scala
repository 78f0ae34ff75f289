package keystate.backend

/** Entries over others, whose values are changed on their way in and out. An entry may also be
  * hidden: it is then not there for the reader.
  */
abstract class WrappedEntries(entries: StateEntries) extends StateEntries {

  /** The value that the reader gets for a stored value; null hides the entry. The stored value is
    * null if there is none.
    */
  protected def read(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Array[Byte]

  /** The stored form of a value that is put. */
  protected def written(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Array[Byte]

  final override def get(family: Int, group: Int, key: Array[Byte]): Array[Byte] =
    read(family, group, key, entries.get(family, group, key))

  final override def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = {
    entries.multiGet(family, groups, keys, values, count)
    var i = 0
    while (i < count) {
      values(i) = read(family, groups(i), keys(i), values(i))
      i += 1
    }
  }

  final override def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    entries.put(family, group, key, written(family, group, key, value))

  final override def remove(family: Int, group: Int, key: Array[Byte]): Unit =
    entries.remove(family, group, key)

  final override def scan(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = read(family, group, entries.scan(family, group, start, end))

  final override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = read(family, group, entries.scanReverse(family, group, start, end))

  private def read(family: Int, group: Int, all: EntryIterator): EntryIterator =
    new EntryIterator {
      private var upcoming: Entry = _

      override def hasNext: Boolean = {
        while (upcoming == null && all.hasNext) {
          val entry = all.next()
          val value = read(family, group, entry.key, entry.value)
          if (value != null) upcoming = new Entry(entry.key, value)
        }
        upcoming != null
      }

      override def next(): Entry = {
        if (!hasNext) Iterator.empty.next()
        val entry = upcoming
        upcoming = null
        entry
      }

      override def close(): Unit = all.close()
    }
}
