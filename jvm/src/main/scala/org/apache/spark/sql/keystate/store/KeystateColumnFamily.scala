package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{
  StateStoreErrors, StateStoreIterator, UnsafeRowPair
}

import keystate.backend.{EntryIterator, GroupScan, GroupedKey, KeyedStateBackend}
import keystate.keygroup.KeyGroupRange

/** A state of one of Keystate's operators, for Spark's `statestore` reader. It is read-only: the
  * operator itself works on the backend.
  */
private[keystate] final class KeystateColumnFamily(
    codec: KeystateCodec,
    backend: KeyedStateBackend,
    groups: KeyGroupRange,
    maxParallelism: Int
) extends ColumnFamily {

  override def get(key: UnsafeRow): UnsafeRow =
    if (codec.isList) valuesIterator(key).nextOption().orNull
    else {
      val group = codec.group(codec.groupingKey(key), maxParallelism)
      val value = backend.get(codec.family.id, group, codec.entryKey(key))
      if (value == null) null else codec.valueRow(value)
    }

  override def valuesIterator(key: UnsafeRow): Iterator[UnsafeRow] = {
    if (!codec.isList) throw unsupported("valuesIterator")
    ofKey(key).flatMap(chunk => codec.elements(chunk.value))
  }

  override def iterator(): StateStoreIterator[UnsafeRowPair] = pairs(all())

  override def prefixScan(prefix: UnsafeRow): StateStoreIterator[UnsafeRowPair] = {
    if (!codec.isMap) throw unsupported("prefixScan")
    pairs(ofKey(codec.groupingKey(prefix)))
  }

  override def iteratorWithMultiValues(): StateStoreIterator[UnsafeRowPair] = {
    if (!codec.isList) throw unsupported("iteratorWithMultiValues")
    val chunks = all()
    val pair = new UnsafeRowPair
    val elements = chunks.flatMap { chunk =>
      val key = codec.keyRow(chunk.key)
      codec.elements(chunk.value).map(pair.withRows(key, _))
    }
    new StateStoreIterator(elements, () => chunks.close())
  }

  override def put(key: UnsafeRow, value: UnsafeRow): Unit = throw unsupported("put")
  override def putList(key: UnsafeRow, values: Array[UnsafeRow]): Unit =
    throw unsupported("putList")
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow]): Unit =
    throw unsupported("merge")
  override def remove(key: UnsafeRow): Unit = throw unsupported("remove")
  override def deleteRange(begin: UnsafeRow, end: UnsafeRow): Unit =
    throw unsupported("deleteRange")
  override def prefixScanWithMultiValues(prefix: UnsafeRow): StateStoreIterator[UnsafeRowPair] =
    throw unsupported("prefixScanWithMultiValues")
  override def rangeScan(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow]
  ): StateStoreIterator[UnsafeRowPair] = throw unsupported("rangeScan")
  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow]
  ): StateStoreIterator[UnsafeRowPair] = throw unsupported("rangeScanWithMultiValues")

  private def all(): EntryIterator =
    GroupScan.concat(groups.first to groups.last, backend.scan(codec.family.id, _, null, null))

  private def ofKey(groupingKey: UnsafeRow): EntryIterator = backend.scan(
    codec.family.id,
    codec.group(groupingKey, maxParallelism),
    GroupedKey.prefix(groupingKey.getBytes),
    null
  )

  private def pairs(entries: EntryIterator): StateStoreIterator[UnsafeRowPair] = {
    val pair = new UnsafeRowPair
    val rows =
      if (codec.isList)
        KeystateCodec.firstChunks(entries).map { chunk =>
          pair.withRows(codec.keyRow(chunk.key), codec.elements(chunk.value).nextOption().orNull)
        }
      else
        entries.map(entry => pair.withRows(codec.keyRow(entry.key), codec.valueRow(entry.value)))
    new StateStoreIterator(rows, () => entries.close())
  }

  private def unsupported(operation: String) =
    StateStoreErrors.unsupportedOperationException(operation, s"Keystate's ${codec.kind} state")
}
