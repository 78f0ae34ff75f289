package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.IntVector
import org.apache.arrow.vector.complex.{ListVector, StructVector}

import org.apache.spark.sql.catalyst.InternalRow

import org.apache.spark.sql.keystate.shim.ArrowWriters

/** A column of a message. A message is one Arrow row, whose columns are lists of any length. */
private[keystate] abstract class MessageColumn(list: ListVector) {
  protected var size = 0

  /** Closes the list. To be called once everything was added. */
  def finish(): Unit = {
    list.startNewValue(0)
    list.endValue(0, size)
    list.setValueCount(1)
  }

  def reset(): Unit = {
    list.reset()
    size = 0
  }
}

/** A message column of plain values. */
private[keystate] final class ValueColumn(list: ListVector) extends MessageColumn(list) {

  /** Takes the values. Tell `added` how many they were. */
  val writer: ArrowWriters.FieldWriter = ArrowWriters.of(list.getDataVector)

  def added(values: Int): Unit = size += values

  override def finish(): Unit = {
    writer.finish()
    super.finish()
  }

  override def reset(): Unit = {
    writer.reset()
    super.reset()
  }
}

/** A message column of integers. */
private[keystate] final class IntColumn(list: ListVector) extends MessageColumn(list) {
  private val vector = list.getDataVector.asInstanceOf[IntVector]

  def count: Int = size

  def add(value: Int): Unit = {
    vector.setSafe(size, value)
    size += 1
  }

  override def finish(): Unit = {
    vector.setValueCount(size)
    super.finish()
  }

  override def reset(): Unit = {
    vector.reset()
    super.reset()
  }
}

/** A message column of rows: one Arrow child vector for each field. */
private[keystate] final class RowColumn(list: ListVector) extends MessageColumn(list) {
  private val struct = list.getDataVector.asInstanceOf[StructVector]
  private val fields =
    Array.tabulate(struct.size)(i => ArrowWriters.of(struct.getChildByOrdinal(i)))

  def count: Int = size

  def add(row: InternalRow): Unit = {
    struct.setIndexDefined(size)
    var i = 0
    while (i < fields.length) {
      fields(i).write(row, i)
      i += 1
    }
    size += 1
  }

  override def finish(): Unit = {
    fields.foreach(_.finish())
    struct.setValueCount(size)
    super.finish()
  }

  override def reset(): Unit = {
    fields.foreach(_.reset())
    struct.reset()
    super.reset()
  }
}

/** A message column of lists. Values written to the element writers between `begin` and `end` are
  * one list. Spark's own writers are not used for that, because they take only whole arrays.
  */
private[keystate] final class ListsColumn(list: ListVector, elements: Seq[ArrowWriters.FieldWriter])
    extends MessageColumn(list) {
  private val lists = list.getDataVector.asInstanceOf[ListVector]

  def begin(): Unit = { lists.startNewValue(size); () }

  def end(length: Int): Unit = {
    lists.endValue(size, length)
    size += 1
  }

  def addNull(): Unit = {
    lists.setNull(size)
    size += 1
  }

  override def finish(): Unit = {
    elements.foreach(_.finish())
    lists.setValueCount(size)
    super.finish()
  }

  override def reset(): Unit = {
    elements.foreach(_.reset())
    lists.reset()
    super.reset()
  }
}
