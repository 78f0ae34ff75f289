package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, Expression, SortOrder, UnaryExpression, Unevaluable
}
import org.apache.spark.sql.types.{DataType, NullType}

import org.apache.spark.sql.keystate.operator.{BroadcastSecondInput, KeyedSecondInput, SecondInput}

/** What an operator reads of one of its children. It is an expression, so that Catalyst replaces the
  * columns in it as it does those in any node. Nothing evaluates it.
  *
  * @param keys
  *   the child's columns that make up the key; none if the rows have no keys
  * @param columns
  *   the child's columns that the function sees; a column that was added for a key is not one of
  *   them
  * @param order
  *   what the rows of a task are sorted by; none if their order does not matter
  */
private[keystate] final case class InputRows(
    keys: Seq[Attribute],
    columns: Seq[Attribute],
    order: Seq[SortOrder]
) extends Expression
    with Unevaluable {
  override def children: Seq[Expression] = keys ++ columns ++ order
  override def dataType: DataType = NullType
  override def nullable: Boolean = true

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): InputRows = {
    val (newKeys, others) = newChildren.splitAt(keys.size)
    val (newColumns, newOrder) = others.splitAt(columns.size)
    InputRows(
      newKeys.map(_.asInstanceOf[Attribute]),
      newColumns.map(_.asInstanceOf[Attribute]),
      newOrder.map(_.asInstanceOf[SortOrder])
    )
  }
}

/** What an operator reads of its right child.
  *
  * @param child
  *   its columns
  * @param isFirst
  *   whether it is what the function calls its first input
  */
private[keystate] final case class SecondInputRows(
    child: InputRows,
    role: InputRole,
    isFirst: Boolean
) extends UnaryExpression
    with Unevaluable {
  override def dataType: DataType = NullType

  override protected def withNewChildInternal(newChild: Expression): SecondInputRows =
    copy(child = newChild.asInstanceOf[InputRows])

  /** The same for the physical operator.
    *
    * @param once
    *   whether it is read in the query's first micro-batch only
    */
  def forTasks(once: Boolean): SecondInput =
    if (role == InputRole.Broadcast) BroadcastSecondInput(child.columns, once)
    else
      KeyedSecondInput(
        child.keys,
        child.columns,
        child.order,
        once,
        isFirst,
        merged = role == InputRole.Merged,
        initial = role == InputRole.Initial
      )
}
