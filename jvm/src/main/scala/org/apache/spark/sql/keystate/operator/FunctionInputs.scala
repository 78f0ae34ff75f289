package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, Expression, SortOrder, UnaryExpression, Unevaluable
}
import org.apache.spark.sql.types.{DataType, NullType}

/** The children of an operator as the inputs of its function.
  *
  * @param left
  *   the left child
  * @param order
  *   the sort order of its rows in a task
  * @param second
  *   the right child's columns and the part that is read, if it is an input with keys
  */
private[keystate] final case class FunctionInputs(
    left: InputColumns,
    order: Seq[SortOrder],
    second: Option[(Seq[Attribute], SecondInput)]
) {

  /** The columns of each input. */
  def columns: Seq[InputColumns] = second.fold(Seq(left)) { case (all, keyed) =>
    FunctionInputs.byIndex(
      left,
      InputColumns(all, keyed.rows.columns, keyed.rows.keys),
      keyed.isFirst
    )
  }

  /** The key columns as they are stored: with the names of the first input, and null where either
    * input can have null.
    */
  def keys: Seq[Attribute] = second.fold(left.keys) { case (_, keyed) =>
    left.keys.zip(keyed.rows.keys).map { case (left, right) =>
      (if (keyed.isFirst) right else left).withNullability(left.nullable || right.nullable)
    }
  }

  /** Rows of a static input come before the rows of the first micro-batch; in a batch query initial
    * state comes before all rows.
    */
  def rowOrder: InputOrder = second match {
    case None => InTurn(Seq(0))
    case Some((_, keyed)) if keyed.once || keyed.role == InputRole.Initial =>
      val right = if (keyed.isFirst) 0 else 1
      InTurn(Seq(right, 1 - right))
    case Some((_, keyed)) if keyed.role == InputRole.Merged =>
      val orders = FunctionInputs.byIndex(order.head, keyed.rows.order.head, keyed.isFirst)
      MergedBy(orders, columns.map(_.all))
    case Some(_) => InTurn(Seq(0, 1))
  }

  /** True for rows behind the watermark, for each input. A static input has none.
    *
    * @param of
    *   says it of the rows of a child by its columns
    */
  def late(of: Seq[Attribute] => Option[Expression]): Seq[Option[Expression]] =
    second.fold(Seq(of(left.all))) { case (all, keyed) =>
      val ofSecond = if (keyed.once) None else of(all)
      FunctionInputs.byIndex(of(left.all), ofSecond, keyed.isFirst)
    }
}

private[keystate] object FunctionInputs {

  /** What belongs to the left and the right child, by the index of the input. */
  def byIndex[T](left: T, right: T, rightIsFirst: Boolean): Seq[T] =
    if (rightIsFirst) Seq(right, left) else Seq(left, right)
}

/** The second input of an operator: what it reads of its right child.
  *
  * @param isFirst
  *   whether the function calls it its first input; the left child is the stream, if there is one
  * @param once
  *   whether the right child is no stream while the left one is, as a physical plan shows. Then it
  *   is
  *   read in one micro-batch only: the first one, or the first in which the operator has it.
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
    case InputRole.Connected | InputRole.Merged => StaticInputs.Connected
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
