package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, SortOrder}

/** The children of an operator as the inputs of its function.
  *
  * @param left
  *   the left child
  * @param order
  *   what its rows are sorted by in a task
  * @param right
  *   the right child's columns and what it is for, if it is an input with keys
  */
private[keystate] final case class FunctionInputs(
    left: InputColumns,
    order: Seq[SortOrder],
    right: Option[(Seq[Attribute], KeyedSecondInput)]
) {

  /** Those of each input. */
  def columns: Seq[InputColumns] = right.fold(Seq(left)) { case (all, keyed) =>
    FunctionInputs.byIndex(left, InputColumns(all, keyed.columns, keyed.keys), keyed.isFirst)
  }

  /** The key columns as they are stored: with the names of the first input, and null where either
    * input can have null.
    */
  def keys: Seq[Attribute] = right.fold(left.keys) { case (_, keyed) =>
    left.keys.zip(keyed.keys).map { case (left, right) =>
      (if (keyed.isFirst) right else left).withNullability(left.nullable || right.nullable)
    }
  }

  /** What a static input has comes before the rows of the first micro-batch; initial state before
    * all rows of a batch query too.
    */
  def rowOrder: InputOrder = right match {
    case None => InTurn(Seq(0))
    case Some((_, keyed)) if keyed.once || keyed.initial =>
      val right = if (keyed.isFirst) 0 else 1
      InTurn(Seq(right, 1 - right))
    case Some((_, keyed)) if keyed.merged =>
      val orders = FunctionInputs.byIndex(order.head, keyed.order.head, keyed.isFirst)
      MergedBy(orders, columns.map(_.all))
    case Some(_) => InTurn(Seq(0, 1))
  }

  /** True for rows behind the watermark, for each input. A static input has none.
    *
    * @param of
    *   says it of the rows of a child by its columns
    */
  def late(of: Seq[Attribute] => Option[Expression]): Seq[Option[Expression]] =
    right.fold(Seq(of(left.all))) { case (all, keyed) =>
      val ofSecond = if (keyed.once) None else of(all)
      FunctionInputs.byIndex(of(left.all), ofSecond, keyed.isFirst)
    }
}

private[keystate] object FunctionInputs {

  /** What belongs to the left and the right child, by the index of the input. */
  def byIndex[T](left: T, right: T, rightIsFirst: Boolean): Seq[T] =
    if (rightIsFirst) Seq(right, left) else Seq(left, right)
}

/** What the right child of an operator is for. */
private[keystate] sealed trait SecondInput {

  /** Whether the right child is no stream while the left one is. Then it is read in one micro-batch
    * only: the first one, or the first that the operator has with it.
    */
  def once: Boolean

  /** What a checkpoint calls it where it is read once. */
  def name: String
}

/** What is broadcast to an operator. */
private[keystate] final case class BroadcastSecondInput(columns: Seq[Attribute], once: Boolean)
    extends SecondInput {
  override def name: String = StaticInputs.Broadcast
}

/** A second input with keys.
  *
  * @param keys
  *   its columns that are the key
  * @param columns
  *   its columns that the function sees
  * @param order
  *   what its rows are sorted by in a task
  * @param isFirst
  *   whether it is what the function calls its first input
  * @param merged
  *   whether both inputs' rows come by the first value in their orders, which are of one type then;
  *   else the rows of one input come after those of the other
  * @param initial
  *   whether it is initial state, which comes before all rows; in a stream it is read once
  */
private[keystate] final case class KeyedSecondInput(
    keys: Seq[Attribute],
    columns: Seq[Attribute],
    order: Seq[SortOrder],
    once: Boolean,
    isFirst: Boolean,
    merged: Boolean,
    initial: Boolean
) extends SecondInput {
  override def name: String = if (initial) StaticInputs.Initial else StaticInputs.Connected
}
