package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, SortOrder}

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
    case Some((_, keyed))
        if keyed.once || keyed.role == InputRole.Initial || keyed.role == InputRole.Ahead =>
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
