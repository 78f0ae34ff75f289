package org.apache.spark.sql.keystate.operator

import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}

/** What the right child of an operator is for. */
private[keystate] sealed trait RightSide {

  /** Whether the right child is no stream while the left one is. Then it is read in the query's
    * first micro-batch only.
    */
  def once: Boolean
}

/** What is broadcast to an operator. */
private[keystate] final case class BroadcastSide(columns: Seq[Attribute], once: Boolean)
    extends RightSide

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
private[keystate] final case class KeyedSide(
    keys: Seq[Attribute],
    columns: Seq[Attribute],
    order: Seq[SortOrder],
    once: Boolean,
    isFirst: Boolean,
    merged: Boolean,
    initial: Boolean
) extends RightSide
