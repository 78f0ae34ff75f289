package org.apache.spark.sql.keystate.table

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

import keystate.TimeDomain.EVENT_TIME
import keystate.backend.{Change, Layout}
import org.apache.spark.sql.keystate.checkpoint.StoredState
import org.apache.spark.sql.keystate.encoding.WindowNamespace
import org.apache.spark.sql.keystate.state.TimerKeys

/** Turns stored entries into the rows of a table. A column that is not wanted is not decoded, and is
  * null. The row is used again.
  */
private[table] final class EntryRows(table: StoredTable, wanted: Set[String]) {
  import EntryRows._

  /** The state, for any table except one of timers. */
  lazy val state = new StoredState(table.family, table.keySchema)

  private val schema: StructType = table.schema
  private val row = new GenericInternalRow(schema.length)
  private val key = at(StoredTable.Key)
  private val value = at(StoredTable.Value).max(at(StoredTable.UserValue))
  private val aggregates = at(StoredTable.Aggregates)
  private lazy val evaluate = table.evaluation.get.evaluator()
  private val userKey = at(StoredTable.UserKey)
  private val element = at(StoredTable.Element)
  private val domain = at(StoredTable.TimeDomain)
  private val time = at(StoredTable.ExpirationTime)
  private val partition = at(StoredTable.Partition)
  private val version = at(StoredTable.Version)
  private val kind = at(StoredTable.Change)
  private val window = at(StoredTable.Window)
  private val isList = table.timers.isEmpty && state.codec.isList
  private val timerKey = new UnsafeRow(table.keySchema.length)

  /** -1 if it is not wanted. */
  private def at(column: String): Int =
    if (wanted(column)) schema.getFieldIndex(column).getOrElse(-1) else -1

  private def set(column: Int, value: => Any): Unit = if (column >= 0) row.update(column, value)

  /** The rows of an entry of this piece. One without a value was removed. */
  def apply(piece: TablePiece, entry: Change): Iterator[InternalRow] = {
    val isRemoved = entry.value == null
    set(partition, piece.partition)
    set(version, piece.version)
    set(kind, if (isRemoved) Removed else if (isList) Appended else Updated)
    if (table.timers.nonEmpty) timer(entry.key, table.timers.get)
    else {
      set(key, state.codec.groupingRow(entry.key))
      if (table.family.layout == Layout.Grouped) set(userKey, state.codec.userKeyRow(entry.key))
      if (!isList) set(value, if (isRemoved) null else state.codec.valueRow(entry.value))
      set(
        aggregates,
        if (isRemoved) null
        else evaluate(state.codec.groupingRow(entry.key), state.codec.valueRow(entry.value))
      )
    }
    if (!isList) Iterator.single(row)
    else if (isRemoved) {
      set(element, null)
      Iterator.single(row)
    } else if (element < 0) Iterator.fill(state.codec.length(entry.value))(row)
    else
      state.codec.elements(entry.value).map { one =>
        row.update(element, one)
        row
      }
  }

  private def timer(entry: Array[Byte], keys: TimerKeys): Unit = {
    set(domain, if (TimerKeys.domainOf(entry) == EVENT_TIME) EventTime else ProcessingTime)
    set(time, TimerKeys.timeOf(entry))
    set(
      window, {
        val namespace = keys.namespaceOf(entry)
        InternalRow(WindowNamespace.endOf(namespace), WindowNamespace.startOf(namespace))
      }
    )
    set(
      key, {
        val bytes = keys.keyOf(entry)
        timerKey.pointTo(bytes, bytes.length)
        timerKey
      }
    )
  }
}

private object EntryRows {
  private val Updated = UTF8String.fromString("update")
  private val Appended = UTF8String.fromString("append")
  private val Removed = UTF8String.fromString("delete")
  private val EventTime = UTF8String.fromString("EVENT_TIME")
  private val ProcessingTime = UTF8String.fromString("PROCESSING_TIME")
}
