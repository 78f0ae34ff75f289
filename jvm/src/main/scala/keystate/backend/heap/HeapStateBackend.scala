package keystate.backend.heap

import scala.collection.mutable

import keystate.backend.{ChangeSink, EntryIterator, KeyedStateBackend, StateFamily}

/** State on the JVM's heap: a hash table or sorted map per state and key group, over byte arrays.
  *
  * Changes are made in place. A transaction's undo log gives the next run its content and rolls an
  * aborted transaction back, so neither costs more than the number of changed entries.
  */
final class HeapStateBackend(maxParallelism: Int) extends KeyedStateBackend {
  private val tables = mutable.TreeMap.empty[Int, FamilyTable]
  // Of the open transaction: families it made, families it dropped.
  private val made = mutable.Set.empty[Int]
  private val dropped = mutable.ArrayBuffer.empty[FamilyTable]
  // The families by id; the sorted map above is too slow for each access.
  private var byId = new Array[FamilyTable](0)

  override def register(family: StateFamily): Unit = if (!tables.contains(family.id)) {
    add(new FamilyTable(family, maxParallelism))
    made += family.id
  }

  override def drop(familyId: Int): Unit = tables.remove(familyId).foreach { table =>
    byId(familyId) = null
    if (!made.remove(familyId)) dropped += table
  }

  override def get(family: Int, group: Int, key: Array[Byte]): Array[Byte] =
    table(family).get(group, key)

  override def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = {
    val entries = table(family)
    var i = 0
    while (i < count) {
      values(i) = entries.get(groups(i), keys(i))
      i += 1
    }
  }

  override def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    table(family).put(group, key, value)

  override def remove(family: Int, group: Int, key: Array[Byte]): Unit =
    table(family).remove(group, key)

  override def load(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    table(family).load(group, key, value)

  override def scan(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = table(family).scan(group, start, end, reverse = false)

  override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = table(family).scan(group, start, end, reverse = true)

  override def count(family: Int): Long = table(family).count

  override def count(family: Int, group: Int): Long = table(family).count(group)

  override def memoryUsed: Long = tables.valuesIterator.map(_.bytes).sum

  override def writeChanges(sink: ChangeSink): Unit =
    tables.valuesIterator.foreach(_.writeChanges(sink))

  override def changeCount: Long = tables.valuesIterator.map(_.changeCount).sum

  override def changesCommitted(): Unit = {
    tables.valuesIterator.foreach(_.changesCommitted())
    endTransaction()
  }

  override def rollback(): Unit = {
    made.foreach { id =>
      tables.remove(id)
      byId(id) = null
    }
    dropped.foreach(add)
    tables.valuesIterator.foreach(_.rollback())
    endTransaction()
  }

  override def close(): Unit = {
    tables.clear()
    byId = new Array[FamilyTable](0)
    endTransaction()
  }

  private def add(table: FamilyTable): Unit = {
    val id = table.family.id
    tables(id) = table
    if (id >= byId.length) byId = byId.padTo(id + 1, null)
    byId(id) = table
  }

  private def table(family: Int): FamilyTable = {
    val table = if (family < byId.length) byId(family) else null
    if (table == null) throw new IllegalStateException(s"no state is registered with id $family")
    table
  }

  private def endTransaction(): Unit = {
    made.clear()
    dropped.clear()
  }
}
