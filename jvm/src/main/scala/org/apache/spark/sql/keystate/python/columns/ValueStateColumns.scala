package org.apache.spark.sql.keystate.python.columns

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.backend.StateValue
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.{Elements, ReceivedRows, StateRows, StoredValueWriter}
import org.apache.spark.sql.keystate.python.protocol.Protocol
import org.apache.spark.sql.keystate.spec.StateSpec
import org.apache.spark.sql.keystate.state.FamilyEntries

/** Value state, and states that keep an accumulator as a value: one stored entry for each key. */
private[keystate] final class ValueStateColumns(spec: StateSpec, index: Int, entries: FamilyEntries)
    extends StateColumns {
  private val projection = UnsafeProjection.create(spec.rowSchema)

  override def sender(column: String => ListVector): StateSender =
    new Sender(new StoredColumn(spec, new ValueColumn(column(Protocol.stateColumn(index)))))

  /** Fills the state's part of a packed message. */
  def packedSender(bytes: PackedBytes): StateSender = new Sender(new StoredBytes(bytes))

  private final class Sender(column: StoredValues) extends StateSender {
    private var keys = new Array[Array[Byte]](0)
    private var groups = new Array[Int](0)
    private var values = new Array[Array[Byte]](0)

    override def load(slots: KeySlots, from: Int, carried: Array[Int]): Long = {
      val wanted = fetch(slots, from, carried)
      val bytes = size(wanted)
      var next = 0
      var i = 0
      while (i < slots.size - from) {
        if (carried(i) < 0) {
          column.add(values(next))
          values(next) = null
          next += 1
        } else
          column.add(null)
        i += 1
      }
      assert(next == wanted)
      bytes
    }

    private def size(wanted: Int): Long = {
      var bytes = 0L
      var i = 0
      while (i < wanted) {
        if (values(i) != null) bytes += values(i).length
        i += 1
      }
      if (bytes > ValueStateColumns.MostBytes)
        throw KeystateErrors.valuesTooLarge(spec.name, wanted, bytes)
      bytes
    }

    /** Reads the values of the keys that are not carried, in one call. Returns their number. */
    private def fetch(slots: KeySlots, from: Int, carried: Array[Int]): Int = {
      val fresh = slots.size - from
      if (keys.length < fresh) {
        keys = new Array(fresh)
        groups = new Array(fresh)
        values = new Array(fresh)
      }
      var wanted = 0
      var i = 0
      while (i < fresh) {
        if (carried(i) < 0) {
          keys(wanted) = slots.key(from + i)
          groups(wanted) = slots.group(from + i)
          wanted += 1
        }
        i += 1
      }
      entries.multiGet(groups, keys, values, wanted)
      wanted
    }

    override def finish(): Unit = column.finish()
    override def reset(): Unit = column.reset()
  }

  override def apply(slots: KeySlots, columns: String => ArrowColumnVector): (Long, Long) = {
    val changed = columns(Protocol.stateColumn(index, Protocol.Part.Slot)).getArray(0)
    val rows = new ReceivedRows(Elements(columns(Protocol.stateColumn(index))), spec.isStruct)
    var removed = 0L
    var i = 0
    while (i < changed.numElements()) {
      val slot = changed.getInt(i)
      if (rows.isNull(i)) {
        entries.remove(slots.group(slot), slots.key(slot))
        removed += 1
      } else {
        val value = StateRows.encode(projection(rows(i)))
        entries.put(slots.group(slot), slots.key(slot), value)
      }
      i += 1
    }
    (changed.numElements() - removed, removed)
  }
}

private object ValueStateColumns {

  /** The most bytes of one load. Arrow's vectors double up to 2 GiB, and may not have that many. */
  val MostBytes: Long = 1L << 30
}

/** Takes stored values, or null where there is none, into a message. */
private[columns] trait StoredValues {
  def add(stored: Array[Byte]): Unit
  def finish(): Unit
  def reset(): Unit
}

private[columns] final class StoredColumn(spec: StateSpec, column: ValueColumn)
    extends StoredValues {
  private val writer = new StoredValueWriter(spec.rowSchema, spec.isStruct, column.writer)

  override def add(stored: Array[Byte]): Unit = {
    writer.write(stored)
    column.added(1)
  }

  override def finish(): Unit = column.finish()
  override def reset(): Unit = column.reset()
}

private[columns] final class StoredBytes(bytes: PackedBytes) extends StoredValues {
  override def add(stored: Array[Byte]): Unit =
    if (stored == null || StateRows.isNull(stored)) bytes.addInt(-1)
    else {
      val start = StateValue.rowOffset(stored)
      bytes.addInt(stored.length - start)
      bytes.add(stored, start, stored.length - start)
    }

  override def finish(): Unit = ()
  override def reset(): Unit = ()
}
