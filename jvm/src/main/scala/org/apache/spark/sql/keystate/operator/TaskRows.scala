package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, BoundReference, RowOrdering, SortOrder, UnsafeProjection
}

/** The rows of a task, from one input or two. A row is valid until the next one is requested. */
private[keystate] sealed abstract class TaskRows extends Iterator[InternalRow] {

  /** The index of the input from which `next` took the last row. */
  def input: Int
}

/** The order in which a task gets the rows of its inputs. It is sent with tasks. */
private[keystate] sealed trait InputOrder {

  /** @param inputs
    *   the rows of each input, by its index
    */
  def rows(inputs: Seq[Iterator[InternalRow]]): TaskRows
}

private[keystate] object TaskRows {
  val Empty: TaskRows = InTurn(Nil).rows(Nil)
}

/** One input after the other.
  *
  * @param order
  *   the indexes of the inputs
  */
private[keystate] final case class InTurn(order: Seq[Int]) extends InputOrder {
  override def rows(inputs: Seq[Iterator[InternalRow]]): TaskRows = new TaskRows {
    private var left = order
    private var current = Iterator.empty[InternalRow]
    private var index = 0

    override def input: Int = index

    override def hasNext: Boolean = {
      while (!current.hasNext && left.nonEmpty) {
        index = left.head
        current = inputs(index)
        left = left.tail
      }
      current.hasNext
    }

    override def next(): InternalRow = {
      if (!current.hasNext) hasNext
      current.next()
    }
  }
}

/** Merges the rows of two inputs by one value, by which each input is sorted. For equal values rows
  * of the first input come first.
  *
  * @param by
  *   the value and its order, for each input
  * @param columns
  *   the columns of each input
  */
private[keystate] final case class MergedBy(by: Seq[SortOrder], columns: Seq[Seq[Attribute]])
    extends InputOrder {
  override def rows(inputs: Seq[Iterator[InternalRow]]): TaskRows = new TaskRows {
    private val ordering = {
      val value = BoundReference(0, by.head.dataType, nullable = true)
      RowOrdering.create(Seq(by.head.copy(child = value, sameOrderExpressions = Nil)), Nil)
    }
    private val values = by.zip(columns).map { case (order, attributes) =>
      UnsafeProjection.create(Seq(order.child), attributes)
    }
    private val first = new Head(inputs(0), values(0))
    private val second = new Head(inputs(1), values(1))
    private var index = 0

    override def input: Int = index

    override def hasNext: Boolean = first.nonEmpty || second.nonEmpty

    override def next(): InternalRow = {
      val fromSecond = second.nonEmpty &&
        (!first.nonEmpty || ordering.compare(second.value, first.value) < 0)
      index = if (fromSecond) 1 else 0
      (if (fromSecond) second else first).take()
    }
  }
}

/** The next row of an input, and its sort value. The row is fetched only when it is needed, because
  * that may invalidate the row before.
  */
private final class Head(rows: Iterator[InternalRow], valueOf: UnsafeProjection) {
  private var row: InternalRow = _ // null: not looked up yet
  var value: InternalRow = _

  def nonEmpty: Boolean = {
    if (row == null && rows.hasNext) {
      row = rows.next()
      value = valueOf(row)
    }
    row != null
  }

  def take(): InternalRow = {
    val taken = row
    row = null
    taken
  }
}
