package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, Expression, SortOrder, UnaryExpression, Unevaluable
}
import org.apache.spark.sql.types.{DataType, NullType}

/** The second input of an operator: what it reads of its right child.
  *
  * @param isFirst
  *   whether the function calls it its first input; the left child is the stream, if there is one
  * @param once
  *   whether the right child is no stream while the left one is, as a physical plan shows. Then it
  *   is read in one micro-batch only: the first one, or the first in which the operator has it.
  */
private[keystate] final case class SecondInput(
    rows: InputRows,
    role: InputRole,
    isFirst: Boolean,
    once: Boolean = false
) extends UnaryExpression
    with Unevaluable {
  override def child: Expression = rows
  override def dataType: DataType = NullType

  /** Whether it has keys, like the first input. */
  def isKeyed: Boolean = role != InputRole.Broadcast

  /** Its name in a checkpoint, if it is read once. */
  def name: String = role match {
    case InputRole.Broadcast => StaticInputs.Broadcast
    case InputRole.Initial => StaticInputs.Initial
    case InputRole.Connected | InputRole.Merged | InputRole.Ahead => StaticInputs.Connected
  }

  override protected def withNewChildInternal(newChild: Expression): SecondInput =
    copy(rows = newChild.asInstanceOf[InputRows])
}

/** The purpose of an operator's second input.
  *
  * @param name
  *   its name in Python
  */
private[keystate] sealed abstract class InputRole(val name: String)

private[keystate] object InputRole {

  /** For a function of two inputs. Within a micro-batch its rows come after those of the first. */
  case object Connected extends InputRole("connected")

  /** For a function of two inputs. The rows of both are merged by the first value of their orders.
    */
  case object Merged extends InputRole("merged")

  /** For a join that looks rows up: within a micro-batch its rows come before those of the first. */
  case object Ahead extends InputRole("ahead")

  /** Initial state: its rows come before all of the first input, and emit nothing. */
  case object Initial extends InputRole("initial")

  /** All subtasks get its rows. It has no keys. */
  case object Broadcast extends InputRole("broadcast")

  /** The role of this name; None for an empty one. */
  def named(name: String): Option[InputRole] =
    if (name.isEmpty) None
    else
      Seq(Connected, Merged, Initial, Broadcast)
        .find(_.name == name)
        .orElse(throw new IllegalArgumentException(s"unknown role '$name' of an input"))
}

/** The columns that an operator reads of one of its children. It is an expression, so that Catalyst
  * replaces the columns in it as in any node. Nothing evaluates it.
  *
  * @param keys
  *   the child's columns that make up the key; none if the rows have no keys
  * @param columns
  *   the child's columns that the function sees; a column that was added for a key is not one of
  *   them
  * @param order
  *   the sort order of a task's rows; none if their order does not matter
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
