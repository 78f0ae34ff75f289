package org.apache.spark.sql.keystate

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType

import keystate.backend.{Entry, EntryIterator, StateEntries, StateValue}

/** Turns stored values of a state, whatever schema they were written with, into values of its newest
  * one, through all schemas in between: so it makes no difference whether a value was written again
  * meanwhile.
  */
private[keystate] final class ValueUpgrade(state: StateSpec) {
  private val newest = state.schemas.size - 1
  private val rows: IndexedSeq[StructType] =
    state.schemas.map(StateSpec.rowSchema(state.kind, _)).toIndexedSeq
  private val steps: IndexedSeq[UnsafeProjection] = rows.zip(rows.drop(1)).map { case (from, to) =>
    UnsafeProjection.create(SchemaEvolution.project(from, to))
  }

  /** A value as it is put, as one of the newest schema. */
  def mark(value: Array[Byte]): Array[Byte] = StateValue.withSchemaId(value, newest)

  def apply(value: Array[Byte]): Array[Byte] =
    if (value == null) null
    else {
      // What was written before the type changed for the first time has no number.
      val schema = Math.max(StateValue.schemaId(value), 0)
      if (schema == newest) value
      else if (schema > newest)
        throw KeystateErrors.unknownSchema(state.name, schema, newest)
      else if (StateRows.isNull(value)) mark(value)
      else {
        var row = new UnsafeRow(rows(schema).length)
        StateRows.point(row, value)
        steps.drop(schema).foreach(step => row = step(row))
        StateValue.encode(row.getBytes, 0, row.getSizeInBytes, newest, StateValue.timestamp(value))
      }
    }
}

/** The entries of a state whose type has changed. An entry is written with the newest schema when the
  * function changes it, and stays as it is till then.
  */
private[keystate] final class EvolvedEntries(entries: StateEntries, upgrade: ValueUpgrade)
    extends StateEntries {

  override def get(family: Int, group: Int, key: Array[Byte]): Array[Byte] =
    upgrade(entries.get(family, group, key))

  override def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = {
    entries.multiGet(family, groups, keys, values, count)
    var i = 0
    while (i < count) {
      values(i) = upgrade(values(i))
      i += 1
    }
  }

  override def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    entries.put(family, group, key, upgrade.mark(value))

  override def remove(family: Int, group: Int, key: Array[Byte]): Unit =
    entries.remove(family, group, key)

  override def scan(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = upgraded(entries.scan(family, group, start, end))

  override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = upgraded(entries.scanReverse(family, group, start, end))

  private def upgraded(all: EntryIterator): EntryIterator = new EntryIterator {
    override def hasNext: Boolean = all.hasNext
    override def next(): Entry = {
      val entry = all.next()
      new Entry(entry.key, upgrade(entry.value))
    }
    override def close(): Unit = all.close()
  }
}

private[keystate] object EvolvedEntries {

  /** What a state is read and written through: just its entries, if its type never changed. */
  def of(state: StateSpec, entries: StateEntries): StateEntries =
    if (state.schemas.isEmpty) entries else new EvolvedEntries(entries, new ValueUpgrade(state))
}
