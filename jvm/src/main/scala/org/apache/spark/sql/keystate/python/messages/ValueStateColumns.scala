package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.backend.StateValue
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.{Elements, ReceivedRows, StateRows, StoredValueWriter}
import org.apache.spark.sql.keystate.spec.{Protocol, StateSpec}
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

    override def load(keyIndexes: KeyIndexes, from: Int, carried: Array[Int]): Long = {
      val wanted = fetch(keyIndexes, from, carried)
      val bytes = size(wanted)
      var next = 0
      var i = 0
      while (i < keyIndexes.size - from) {
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
    private def fetch(keyIndexes: KeyIndexes, from: Int, carried: Array[Int]): Int = {
      val fresh = keyIndexes.size - from
      if (keys.length < fresh) {
        keys = new Array(fresh)
        groups = new Array(fresh)
        values = new Array(fresh)
      }
      var wanted = 0
      var i = 0
      while (i < fresh) {
        if (carried(i) < 0) {
          keys(wanted) = keyIndexes.key(from + i)
          groups(wanted) = keyIndexes.group(from + i)
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

  override def apply(keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): (Long, Long) = {
    val changed = columns(Protocol.stateColumn(index, Protocol.Part.KeyIndex)).getArray(0)
    val rows = new ReceivedRows(Elements(columns(Protocol.stateColumn(index))), spec.isStruct)
    var removed = 0L
    var i = 0
    while (i < changed.numElements()) {
      val keyIndex = changed.getInt(i)
      if (rows.isNull(i)) {
        entries.remove(keyIndexes.group(keyIndex), keyIndexes.key(keyIndex))
        removed += 1
      } else {
        val value = StateRows.encode(projection(rows(i)))
        entries.put(keyIndexes.group(keyIndex), keyIndexes.key(keyIndex), value)
      }
      i += 1
    }
    (changed.numElements() - removed, removed)
  }
}

private object ValueStateColumns {

  /** The most bytes of one load. Arrow's vectors double up to 2 GiB, and can't have that many. */
  val MostBytes: Long = 1L << 30
}

/** Takes stored values, or null where there is none, into a message. */
private[messages] trait StoredValues {
  def add(stored: Array[Byte]): Unit
  def finish(): Unit
  def reset(): Unit
}

private[messages] final class StoredColumn(spec: StateSpec, column: ValueColumn)
    extends StoredValues {
  private val writer = new StoredValueWriter(spec.rowSchema, spec.isStruct, column.writer)

  override def add(stored: Array[Byte]): Unit = {
    writer.write(stored)
    column.added(1)
  }

  override def finish(): Unit = column.finish()
  override def reset(): Unit = column.reset()
}

private[messages] final class StoredBytes(bytes: PackedBytes) extends StoredValues {
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
