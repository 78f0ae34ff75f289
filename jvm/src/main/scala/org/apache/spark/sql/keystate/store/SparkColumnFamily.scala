package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

import keystate.backend.{
  BytewiseOrder, Entry, EntryIterator, GroupScan, KeyedStateBackend, Layout, StableScans
}
import keystate.keygroup.KeyGroupRange
import org.apache.spark.sql.keystate.encoding.SparkKeys

/** A column family of one of Spark's own operators. What its encoding cannot do is refused, with
  * the messages of Spark's RocksDB provider.
  */
private[keystate] final class SparkColumnFamily(
    codec: SparkCodec,
    keys: SparkKeys,
    family: Int,
    backend: KeyedStateBackend,
    groups: KeyGroupRange,
    groupOf: UnsafeRow => Int
) extends ColumnFamily {
  private val scans = new StableScans(backend.get(family, _, _))

  override def get(key: UnsafeRow): UnsafeRow = codec.values.decodeValue(read(key))

  override def multiGet(asked: Array[UnsafeRow]): Iterator[UnsafeRow] = {
    val values = new Array[Array[Byte]](asked.length)
    backend.multiGet(family, asked.map(groupOf), asked.map(keys.encodeKey), values, asked.length)
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

  override def remove(key: UnsafeRow): Unit = remove(groupOf(key), keys.encodeKey(key))

  override def deleteRange(begin: UnsafeRow, end: UnsafeRow): Unit = {
    verify(
      codec.supportsDeleteRange,
      "deleteRange requires a RangeKeyScanStateEncoderSpec for ordered key encoding"
    )
    val first = keys.encodeKey(begin)
    val last = keys.encodeKey(end)
    groupRange.foreach { group =>
      val entries = backend.scan(family, group, first, last)
      try entries.foreach(entry => remove(group, entry.key))
      finally entries.close()
    }
  }

  override def iterator(): StateStoreIterator[UnsafeRowPair] = single(all())

  override def iteratorWithMultiValues(): StateStoreIterator[UnsafeRowPair] = multiple(all())

  override def prefixScan(prefix: UnsafeRow): StateStoreIterator[UnsafeRowPair] = {
    require(keys.supportPrefixKeyScan, "Prefix scan requires setting prefix key!")
    single(withPrefix(prefix))
  }

  override def prefixScanWithMultiValues(prefix: UnsafeRow): StateStoreIterator[UnsafeRowPair] = {
    verify(
      keys.supportPrefixKeyScan,
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

  override def close(): Unit = scans.close()

  private def read(key: UnsafeRow): Array[Byte] =
    backend.get(family, groupOf(key), keys.encodeKey(key))

  private def write(key: UnsafeRow, value: Array[Byte]): Unit = {
    val group = groupOf(key)
    val entryKey = keys.encodeKey(key)
    scans.changing(group, entryKey)
    backend.put(family, group, entryKey, value)
  }

  private def remove(group: Int, entryKey: Array[Byte]): Unit = {
    scans.changing(group, entryKey)
    backend.remove(family, group, entryKey)
  }

  private def concat(head: Array[Byte], values: Array[UnsafeRow]): Array[Byte] =
    Array.concat(head +: values.toIndexedSeq.map(codec.values.encodeValue): _*)

  private def groupRange: Range = groups.first to groups.last

  // If the encoding has an order, the entries of the whole store are in that order: Spark's timers
  // and joins rely on it. An iterator over an empty store stays empty, whatever is put afterwards.
  private def all(): EntryIterator =
    if (backend.count(family) == 0) GroupScan.empty
    else if (codec.supportsRangeScan) scan(null, null)(GroupScan.merge(groupRange, _))
    else scan(null, null)(GroupScan.concat(groupRange, _))

  private def withPrefix(prefix: UnsafeRow): EntryIterator = {
    val start = keys.encodePrefixKey(prefix)
    val end = BytewiseOrder.after(start)
    if (codec.prefixInOneGroup)
      scans.scanOfKey((start, end), scanOf(start, end)(_, _), groupOf(prefix))
    else scan(start, end)(GroupScan.merge(groupRange, _))
  }

  private def between(start: Option[UnsafeRow], end: Option[UnsafeRow]): EntryIterator = {
    require(codec.supportsRangeScan, "Range scan requires an encoder that supports range scanning!")
    val first = start.map(keys.encodeKey).orNull
    val last = end.map(keys.encodeKey).orNull
    scan(first, last)(GroupScan.merge(groupRange, _))
  }

  // As with Spark's RocksDB provider, whose iterators read a snapshot: no open scan shows changes
  // that a function makes while it reads, for example when a timer registers another one. Entries
  // without an order can't have that: of these Spark changes only the last one that it read.
  private def scan(start: Array[Byte], end: Array[Byte])(
      of: (Int => EntryIterator) => EntryIterator
  ): EntryIterator =
    if (codec.layout == Layout.Point) of(backend.scan(family, _, start, end))
    else scans.scan((start, end), scanOf(start, end)(_, _), of)

  private def scanOf(start: Array[Byte], end: Array[Byte])(
      group: Int,
      from: Array[Byte]
  ): EntryIterator = backend.scan(family, group, if (from == null) start else from, end)

  private def single(entries: EntryIterator): StateStoreIterator[UnsafeRowPair] = {
    val pair = new UnsafeRowPair
    rows(
      entries,
      entries.map { entry =>
        pair.withRows(keys.decodeKey(entry.key), codec.values.decodeValue(entry.value))
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
        val key = keys.decodeKey(entry.key)
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
