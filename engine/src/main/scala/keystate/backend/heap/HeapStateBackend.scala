package keystate.backend.heap

import scala.collection.mutable

import keystate.backend.{
  ChangeSink, EntryIterator, FamilyTables, GroupEntries, GroupSource, HandsOver, KeyedStateBackend,
  LoadsOnDemand, StateFamily
}
import keystate.keygroup.KeyGroupRange

/** State on the JVM's heap: a hash table or sorted map per state and key group, over byte arrays.
  *
  * Changes are made in place. A transaction's undo log gives the next run its content and rolls an
  * aborted transaction back, so neither costs more than the number of changed entries.
  */
final class HeapStateBackend(maxParallelism: Int)
    extends KeyedStateBackend
    with LoadsOnDemand
    with HandsOver {

  private val tables = new FamilyTables(new FamilyTable(_, maxParallelism))
  private val sources = mutable.Buffer.empty[GroupSource]

  override def register(family: StateFamily): Unit = tables.register(family)

  override def drop(familyId: Int): Unit = tables.drop(familyId)

  override def get(family: Int, group: Int, key: Array[Byte]): Array[Byte] =
    tables(family).get(group, key)

  override def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = {
    val entries = tables(family)
    var i = 0
    while (i < count) {
      values(i) = entries.get(groups(i), keys(i))
      i += 1
    }
  }

  override def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    tables(family).put(group, key, value)

  override def remove(family: Int, group: Int, key: Array[Byte]): Unit =
    tables(family).remove(group, key): Unit

  override def take(family: Int, group: Int, key: Array[Byte]): Boolean =
    tables(family).remove(group, key)

  override def loader(expected: (Int, Int) => Long): ChangeSink = new ChangeSink {
    override def add(
        family: Int,
        group: Int,
        key: Array[Byte],
        keyStart: Int,
        keyLength: Int,
        value: Array[Byte],
        valueStart: Int,
        valueLength: Int
    ): Unit = {
      val table = tables(family).madeTable(group, expected)
      table.load(key, keyStart, keyLength, value, valueStart, valueLength)
    }
  }

  override def loadOnDemand(family: Int, source: GroupSource): Unit = {
    sources += source
    tables(family).loadOnDemand(source)
  }

  override def handOver(groups: KeyGroupRange): Map[(Int, Int), GroupEntries] = {
    val entries = for {
      table <- tables.all
      group <- groups.first to groups.last
      own <- table.handOver(group)
    } yield (table.family.id, group) -> own
    entries.toMap
  }

  override def takeOver(family: Int, group: Int, entries: GroupEntries): Unit = entries match {
    case table: KeyGroupTable => tables(family).takeOver(group, table)
    case other => throw new IllegalArgumentException(s"${other.getClass} is of another backend")
  }

  override def scan(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator =
    tables(family).scan(group, start, end, reverse = false)

  override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = tables(family).scan(group, start, end, reverse = true)

  override def count(family: Int): Long = tables(family).count

  override def count(family: Int, group: Int): Long = tables(family).count(group)

  override def memoryUsed: Long = tables.all.map(_.bytes).sum

  /** The number of entries on the heap, without entries that are not loaded yet. */
  private[backend] def entriesHeld: Long = tables.all.map(_.entriesHeld).sum

  override def writeChanges(sink: ChangeSink): Unit =
    tables.all.foreach(_.writeChanges(sink))

  override def changeCount: Long = tables.all.map(_.changeCount).sum

  override def changesCommitted(): Unit = {
    tables.all.foreach(_.changesCommitted())
    tables.commit()
  }

  override def rollback(): Unit = {
    tables.rollback()
    tables.all.foreach(_.rollback())
  }

  override def close(): Unit = {
    tables.clear()
    sources.foreach(_.close())
  }
}
