package org.apache.spark.sql.keystate

import org.apache.arrow.vector.complex.{ListVector, StructVector}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.{ArrayType, DataType, StructField}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch, ColumnVector}
import org.apache.spark.unsafe.Platform

import keystate.backend.{StateEntries, StateValue}
import keystate.ttl.TtlEntries

/** The JVM's side of one state: sends what is stored ahead of the rows that may need it, and writes
  * back what the function changed.
  */
private[keystate] trait StateChannel {

  /** Makes the sender that fills these columns of a message to the worker. */
  def sender(column: String => ListVector): StateSender

  /** Writes the changes in a message from the worker back; its columns are aligned with the slots it
    * changed. Returns how many entries were put and removed.
    */
  def apply(slots: KeySlots, columns: String => ArrowColumnVector): (Long, Long)

  /** For a state that may be too large to be sent ahead: the next entries of a key. */
  def page(group: Int, key: Array[Byte], request: PageRequest, format: PageFormat): Page =
    throw new UnsupportedOperationException(s"$this is always sent ahead")

  /** Likewise: the values of those user keys that are there. */
  def find(
      group: Int,
      key: Array[Byte],
      userKeys: ArrowColumnVector,
      format: PageFormat
  ): Array[Byte] = throw new UnsupportedOperationException(s"$this has no user keys")

  /** The entry keys of these user keys. */
  def entryKeys(key: Array[Byte], userKeys: ArrowColumnVector): Seq[Array[Byte]] =
    throw new UnsupportedOperationException(s"$this has no user keys")
}

/** Fills a state's columns of a message to the worker, one element a key that is new to it. */
private[keystate] trait StateSender {

  /** Adds the state of the keys in `slots` from `from` on; returns about how many bytes it has. A
    * carried key's state is still with the worker; its place is filled with a null.
    */
  def load(slots: KeySlots, from: Int, carried: Array[Int]): Long

  /** Finishes the columns; `reset` clears them once the message was written. */
  def finish(): Unit
  def reset(): Unit
}

/** How much of a list or map is sent ahead; one that has more is asked for by page. */
private[keystate] final case class Inline(entries: Int, bytes: Long) {
  def fits(entries: Int, bytes: Long): Boolean = entries <= this.entries && bytes <= this.bytes
}

private[keystate] object StateChannel {

  /** A page ends when it has this many bytes: entries may be large. */
  val PageBytes: Long = 4L << 20

  /** A state's columns in a message to the worker. */
  def sentFields(spec: StateSpec, index: Int): Seq[StructField] = spec.kind match {
    case StateKind.Value => Seq(list(s"s$index", spec.valueType))
    case StateKind.List => Seq(list(s"s$index", ArrayType(spec.valueType)))
    case StateKind.Map | StateKind.SortedMap =>
      Seq(
        list(s"s${index}_k", ArrayType(spec.keyType.get)),
        list(s"s${index}_v", ArrayType(spec.valueType))
      )
    case StateKind.Broadcast => StateKind.notKeyed
  }

  def list(name: String, element: DataType): StructField = StructField(name, ArrayType(element))

  def apply(
      spec: StateSpec,
      index: Int,
      family: Int,
      backend: StateEntries,
      inline: Inline
  ): StateChannel = {
    val channel = spec.kind match {
      case StateKind.Value => new ValueChannel(spec, index, family, backend)
      case StateKind.List => new ListChannel(spec, index, family, backend, inline)
      case StateKind.Map | StateKind.SortedMap =>
        new MapChannel(spec, index, family, backend, inline)
      case StateKind.Broadcast => StateKind.notKeyed
    }
    backend match {
      case entries: TtlEntries if spec.ttl.exists(_.needsStamps) =>
        new StampedChannel(channel, spec, index, family, entries)
      case _ => channel
    }
  }

  /** Removes all entries of a key; returns how many there were. */
  def clear(backend: StateEntries, family: Int, group: Int, key: Array[Byte]): Long = {
    val entries = backend.scan(family, group, EntryKeys.prefix(key), null)
    try {
      var removed = 0L
      entries.foreach { entry =>
        backend.remove(family, group, entry.key)
        removed += 1
      }
      removed
    } finally entries.close()
  }
}

/** A row view of what the worker sent for one state's values: a struct's fields, or the one value
  * as the field of a row. Gives the same object at every index.
  */
private[keystate] final class ReceivedRows(vector: ArrowColumnVector, isStruct: Boolean) {
  private val fields: Array[ColumnVector] = vector.getValueVector match {
    case struct: StructVector if isStruct => Array.tabulate(struct.size)(vector.getChild)
    case _ => Array(vector)
  }
  private val batch = new ColumnarBatch(fields)
  batch.setNumRows(vector.getValueVector.getValueCount)

  def size: Int = batch.numRows
  def isNull(i: Int): Boolean = vector.isNullAt(i)
  def apply(i: Int): InternalRow = batch.getRow(i)
}

/** The element vector of a list column. */
private[keystate] object Elements {
  def apply(column: ArrowColumnVector): ArrowColumnVector = new ArrowColumnVector(
    column.getValueVector.asInstanceOf[ListVector].getDataVector
  )
}

/** Stored values and the rows in them. */
private[keystate] object StateRows {

  /** A map's value that is null although its type is a struct: nothing follows the header. */
  val NullStruct: Array[Byte] = Array(StateValue.NullFlag)

  def isNull(bytes: Array[Byte]): Boolean = (bytes(0) & StateValue.NullFlag) != 0

  /** Makes `row` the row in a stored value, without copying. */
  def point(row: UnsafeRow, bytes: Array[Byte]): Unit = {
    val offset = StateValue.rowOffset(bytes)
    row.pointTo(bytes, (Platform.BYTE_ARRAY_OFFSET + offset).toLong, bytes.length - offset)
  }

  /** A stored value that never expires: the header is one byte, 0. */
  def encode(row: UnsafeRow): Array[Byte] = {
    val bytes = new Array[Byte](1 + row.getSizeInBytes)
    Platform.copyMemory(
      row.getBaseObject,
      row.getBaseOffset,
      bytes,
      Platform.BYTE_ARRAY_OFFSET + 1L,
      row.getSizeInBytes.toLong
    )
    bytes
  }
}
