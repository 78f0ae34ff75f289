package org.apache.spark.sql.keystate

import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32C

import org.apache.spark.sql.catalyst.expressions.{Attribute, GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.backend.{Entry, KeyedStateBackend, StateEntries}
import keystate.keygroup.KeyGroups

/** What is broadcast to a task: rows, the same in the same order for every task of a batch. */
private[keystate] final class BroadcastInput(
    val columns: Seq[Attribute],
    output: Seq[Attribute],
    val rows: Array[InternalRow]
) {
  def iterator: Iterator[InternalRow] =
    if (columns == output) rows.iterator
    else rows.iterator.map(UnsafeProjection.create(columns, output))
}

/** A subtask's broadcast states. Their entries are in the operator group, and with them a tag that
  * is drawn anew whenever broadcast elements were processed: a worker that holds the states under
  * the same tag has just what is stored, and need not be sent it.
  *
  * @param families
  *   the backend's ids of the states, and then of the tag
  */
private[keystate] final class BroadcastStates(
    specs: Seq[StateSpec],
    families: Seq[Int],
    backend: KeyedStateBackend,
    maxParallelism: Int
) {
  private val group = KeyGroups.operatorGroup(maxParallelism)
  private val tagFamily = families.last
  private val tagKey = Array.emptyByteArray

  val channels: Seq[BroadcastChannel] = specs.zipWithIndex.map { case (spec, i) =>
    new BroadcastChannel(spec, i, families(i), EvolvedEntries.of(spec, backend), group)
  }

  /** Empty before the first element. */
  def tag: String =
    Option(backend.get(tagFamily, group, tagKey)).fold("")(new String(_, UTF_8))

  def tag_=(tag: String): Unit = backend.put(tagFamily, group, tagKey, tag.getBytes(UTF_8))
}

private[keystate] object BroadcastStates {
  val FamilyName = "$broadcast"
  val FamilyProperties: Map[String, String] = Map("kind" -> "broadcast_tag")
}

/** One broadcast state: an entry a key, in the order of the keys. */
private[keystate] final class BroadcastChannel(
    val spec: StateSpec,
    index: Int,
    family: Int,
    backend: StateEntries,
    group: Int
) {
  private val codec = OrderedKeyCodec(spec.keyType.get, spec.order)
  private val projection = UnsafeProjection.create(spec.rowSchema)
  private val pageSchema =
    new StructType().add("key", spec.keyType.get).add("value", spec.valueType)

  /** The next entries from this one on. */
  def page(from: Option[Array[Byte]], limit: Int, format: PageFormat): Page = {
    val entries = backend.scan(family, group, from.orNull, null)
    try {
      val data = format.write(pageSchema) { writers =>
        val keyRow = new GenericInternalRow(1)
        val values = new StoredValueWriter(spec, writers(1))
        var size = 0
        while (entries.hasNext && size < limit) {
          val entry = entries.next()
          codec.decode(entry.key, 0, keyRow, 0)
          writers(0).write(keyRow, 0)
          values.write(entry.value)
          size += 1
        }
        size
      }
      Page(data, Option.when(entries.hasNext)(entries.next().key))
    } finally entries.close()
  }

  /** Writes the changes in a message from the worker back; returns how many entries were put and
    * removed.
    */
  def apply(columns: String => ArrowColumnVector): (Long, Long) = {
    var removed = if (columns(s"b${index}_reset").getBoolean(0)) clear() else 0L
    val gone = columns(s"b${index}_d").getArray(0)
    var i = 0
    while (i < gone.numElements()) {
      remove(codec.encode(gone, i))
      i += 1
    }
    removed += i
    val keys = columns(s"b${index}_k").getArray(0)
    val values = new ReceivedRows(Elements(columns(s"b${index}_v")), spec.isStruct)
    i = 0
    while (i < keys.numElements()) {
      val value =
        if (spec.isStruct && values.isNull(i)) StateRows.NullStruct
        else StateRows.encode(projection(values(i)))
      put(codec.encode(keys, i), value)
      i += 1
    }
    (i.toLong, removed)
  }

  /** Removes all entries; returns how many there were. */
  def clear(): Long = {
    val keys = entries(_.key)
    keys.foreach(remove)
    keys.size.toLong
  }

  // By keys as a codec of their order encodes them, and values as states store them.

  def get(key: Array[Byte]): Array[Byte] = backend.get(family, group, key)
  def put(key: Array[Byte], value: Array[Byte]): Unit = backend.put(family, group, key, value)
  def remove(key: Array[Byte]): Unit = backend.remove(family, group, key)

  /** What `use` makes of each entry, at once. */
  def entries[T](use: Entry => T): Seq[T] = {
    val entries = backend.scan(family, group, null, null)
    try entries.map(use).toVector
    finally entries.close()
  }

  def isEmpty: Boolean = {
    val entries = backend.scan(family, group, null, null)
    try !entries.hasNext
    finally entries.close()
  }

  /** The same for the same entries. */
  def digest: Long = {
    val crc = new CRC32C
    val entries = backend.scan(family, group, null, null)
    var count = 0L
    try
      entries.foreach { entry =>
        crc.update(entry.key)
        crc.update(entry.value)
        count += 1
      }
    finally entries.close()
    count << 32 ^ crc.getValue
  }
}
