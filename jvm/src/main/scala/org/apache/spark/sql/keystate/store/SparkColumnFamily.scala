package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

import keystate.backend.BytewiseOrder
import keystate.backend.{Entry, EntryIterator, GroupScan, KeyedStateBackend}
import keystate.keygroup.KeyGroupRange

/** A column family of one of Spark's own operators. What its encoding cannot do is refused, with
  * the messages of Spark's RocksDB provider.
  */
private[keystate] final class SparkColumnFamily(
    codec: SparkCodec,
    family: Int,
    backend: KeyedStateBackend,
    groups: KeyGroupRange,
    groupOf: UnsafeRow => Int
) extends ColumnFamily {

  override def get(key: UnsafeRow): UnsafeRow = codec.values.decodeValue(read(key))

  override def multiGet(keys: Array[UnsafeRow]): Iterator[UnsafeRow] = {
    val values = new Array[Array[Byte]](keys.length)
    backend.multiGet(family, keys.map(groupOf), keys.map(codec.keys.encodeKey), values, keys.length)
    values.iterator.map(codec.values.decodeValue)
  }

  override def valuesIterator(key: UnsafeRow): Iterator[UnsafeRow] = {
    verifyMultipleValues(
      "valuesIterator requires a encoder that supports multiple values for a " +
        "single key."
    )
    codec.values.decodeValues(read(key))
  }

  override def put(key: UnsafeRow, value: UnsafeRow): Unit =
    write(key, codec.values.encodeValue(value))

  override def putList(key: UnsafeRow, values: Array[UnsafeRow]): Unit = {
    verifyMultipleValues(
      "Multi-value put operation requires an encoder which supports multiple " +
        "values for a single key"
    )
    write(key, concat(Array.emptyByteArray, values))
  }

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow]): Unit = {
    verifyMultipleValues(
      "Merge operation requires an encoder which supports multiple values for " +
        "a single key"
    )
    val old = read(key)
    write(key, concat(if (old == null) Array.emptyByteArray else old, values))
  }

  override def remove(key: UnsafeRow): Unit =
    backend.remove(family, groupOf(key), codec.keys.encodeKey(key))

  override def deleteRange(begin: UnsafeRow, end: UnsafeRow): Unit = {
    verify(
      codec.supportsDeleteRange,
      "deleteRange requires a RangeKeyScanStateEncoderSpec for ordered key encoding"
    )
    val first = codec.keys.encodeKey(begin)
    val last = codec.keys.encodeKey(end)
    groupRange.foreach { group =>
      val entries = backend.scan(family, group, first, last)
      try entries.foreach(entry => backend.remove(family, group, entry.key))
      finally entries.close()
    }
  }

  override def iterator(): StateStoreIterator[UnsafeRowPair] = single(all())

  override def iteratorWithMultiValues(): StateStoreIterator[UnsafeRowPair] = multiple(all())

  override def prefixScan(prefix: UnsafeRow): StateStoreIterator[UnsafeRowPair] = {
    require(codec.keys.supportPrefixKeyScan, "Prefix scan requires setting prefix key!")
    single(withPrefix(prefix))
  }

  override def prefixScanWithMultiValues(prefix: UnsafeRow): StateStoreIterator[UnsafeRowPair] = {
    verify(
      codec.keys.supportPrefixKeyScan,
      "prefixScanWithMultiValues requires encoder supporting prefix scan!"
    )
    multiple(withPrefix(prefix))
  }

  override def rangeScan(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow]
  ): StateStoreIterator[UnsafeRowPair] = single(between(start, end))

  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow]
  ): StateStoreIterator[UnsafeRowPair] = multiple(between(start, end))

  private def read(key: UnsafeRow): Array[Byte] =
    backend.get(family, groupOf(key), codec.keys.encodeKey(key))

  private def write(key: UnsafeRow, value: Array[Byte]): Unit =
    backend.put(family, groupOf(key), codec.keys.encodeKey(key), value)

  private def concat(head: Array[Byte], values: Array[UnsafeRow]): Array[Byte] =
    Array.concat(head +: values.toIndexedSeq.map(codec.values.encodeValue): _*)

  private def groupRange: Range = groups.first to groups.last

  // If the encoding has an order, the entries of the whole store are in that order: Spark's timers
  // and joins rely on it. An iterator over nothing stays empty, whatever is put afterwards.
  private def all(): EntryIterator =
    if (backend.count(family) == 0) GroupScan.empty
    else if (codec.supportsRangeScan)
      GroupScan.merge(groupRange, backend.scan(family, _, null, null))
    else GroupScan.concat(groupRange, backend.scan(family, _, null, null))

  private def withPrefix(prefix: UnsafeRow): EntryIterator = {
    val start = codec.keys.encodePrefixKey(prefix)
    val end = BytewiseOrder.after(start)
    if (codec.prefixInOneGroup)
      backend.scan(family, groupOf(prefix), start, end)
    else GroupScan.merge(groupRange, backend.scan(family, _, start, end))
  }

  private def between(start: Option[UnsafeRow], end: Option[UnsafeRow]): EntryIterator = {
    require(codec.supportsRangeScan, "Range scan requires an encoder that supports range scanning!")
    val first = start.map(codec.keys.encodeKey).orNull
    val last = end.map(codec.keys.encodeKey).orNull
    GroupScan.merge(groupRange, backend.scan(family, _, first, last))
  }

  private def single(entries: EntryIterator): StateStoreIterator[UnsafeRowPair] = {
    val pair = new UnsafeRowPair
    rows(
      entries,
      entries.map { entry =>
        pair.withRows(codec.keys.decodeKey(entry.key), codec.values.decodeValue(entry.value))
      }
    )
  }

  private def multiple(entries: EntryIterator): StateStoreIterator[UnsafeRowPair] = {
    verifyMultipleValues(
      "Multi-value iterator operation requires an encoder which supports " +
        "multiple values for a single key"
    )
    val pair = new UnsafeRowPair
    rows(
      entries,
      entries.flatMap { (entry: Entry) =>
        val key = codec.keys.decodeKey(entry.key)
        codec.values.decodeValues(entry.value).map(pair.withRows(key, _))
      }
    )
  }

  private def rows(entries: EntryIterator, pairs: Iterator[UnsafeRowPair]) =
    new StateStoreIterator(pairs, () => entries.close())

  private def verifyMultipleValues(message: String): Unit =
    verify(codec.values.supportsMultipleValuesPerKey, message)

  private def verify(condition: Boolean, message: String): Unit =
    if (!condition) throw new IllegalStateException(message)
}
