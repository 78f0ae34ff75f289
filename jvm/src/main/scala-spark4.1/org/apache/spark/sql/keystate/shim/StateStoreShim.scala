package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{
  StateStore, StateStoreIterator, UnsafeRowPair
}

/** Spark 4.1's `StateStore`, with the methods that it has from Spark 4.2 on. Nothing in Spark 4.1
  * calls them.
  */
private[keystate] trait StateStoreShim extends StateStore {
  def allColumnFamilyNames: Set[String]

  def multiGet(keys: Array[UnsafeRow], columnFamily: String): Iterator[UnsafeRow]

  def deleteRange(begin: UnsafeRow, end: UnsafeRow, columnFamily: String): Unit

  def iteratorWithMultiValues(columnFamily: String): StateStoreIterator[UnsafeRowPair]

  def prefixScanWithMultiValues(
      prefix: UnsafeRow,
      columnFamily: String
  ): StateStoreIterator[UnsafeRowPair]

  def rangeScan(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      columnFamily: String
  ): StateStoreIterator[UnsafeRowPair]

  def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      columnFamily: String
  ): StateStoreIterator[UnsafeRowPair]
}
