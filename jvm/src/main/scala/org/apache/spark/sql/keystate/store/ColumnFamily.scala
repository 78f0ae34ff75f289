package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{
  RecordType, StateStoreIterator, UnsafeRowPair
}

import keystate.backend.{Change, StateFamily}
import keystate.checkpoint.VersionedStore

/** One column family of an open store, as Spark sees it: rows in, rows out. A row that is returned
  * may be reused by the next call, as in Spark's own stores.
  */
private[keystate] trait ColumnFamily {
  def get(key: UnsafeRow): UnsafeRow
  def multiGet(keys: Array[UnsafeRow]): Iterator[UnsafeRow] = keys.iterator.map(get)
  def valuesIterator(key: UnsafeRow): Iterator[UnsafeRow]

  def put(key: UnsafeRow, value: UnsafeRow): Unit
  def putList(key: UnsafeRow, values: Array[UnsafeRow]): Unit
  def mergeList(key: UnsafeRow, values: Array[UnsafeRow]): Unit
  def remove(key: UnsafeRow): Unit
  def deleteRange(begin: UnsafeRow, end: UnsafeRow): Unit

  def iterator(): StateStoreIterator[UnsafeRowPair]
  def iteratorWithMultiValues(): StateStoreIterator[UnsafeRowPair]
  def prefixScan(prefix: UnsafeRow): StateStoreIterator[UnsafeRowPair]
  def prefixScanWithMultiValues(prefix: UnsafeRow): StateStoreIterator[UnsafeRowPair]
  def rangeScan(start: Option[UnsafeRow], end: Option[UnsafeRow]): StateStoreIterator[UnsafeRowPair]
  def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow]
  ): StateStoreIterator[UnsafeRowPair]

  /** Ends scans that are still open. Called before the store is committed or rolled back. */
  def close(): Unit = ()
}

/** How a column family is stored. */
private[keystate] trait FamilyCodec {

  /** Makes the column family of an open store. */
  def open(family: StateFamily, versions: VersionedStore): ColumnFamily

  /** A stored family's change as Spark's change feed describes it. The rows belong to the caller. */
  def records(stored: StateFamily, change: Change): Seq[(RecordType.Value, UnsafeRow, UnsafeRow)]
}
