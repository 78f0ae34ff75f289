package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Attribute,
  AttributeMap,
  AttributeSet,
  Expression,
  SortOrder
}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.operator.OperatorFunction
import org.apache.spark.sql.keystate.shim.StatefulPlanShim
import org.apache.spark.sql.keystate.spec.OperatorSpec

/** A function that is applied to the rows of two inputs, with one set of states and timers by key.
  *
  * @param keys
  *   the columns of `left` that make up the key
  * @param columns
  *   the columns of `left` that the function sees
  * @param order
  *   what the rows of `left` are sorted by in a task
  * @param rightKeys
  *   the same of `right`, as the two that follow; the types are those of `keys`
  * @param rightIsFirst
  *   whether `right` is what the function calls its first input
  * @param merged
  *   whether the rows of both come by the first value of their orders
  * @param initial
  *   whether `right` is initial state: its rows come before all of `left`, and emit nothing
  */
private[keystate] case class TwoInputProcess(
    function: OperatorFunction,
    keys: Seq[Attribute],
    columns: Seq[Attribute],
    order: Seq[SortOrder],
    rightKeys: Seq[Attribute],
    rightColumns: Seq[Attribute],
    rightOrder: Seq[SortOrder],
    rightIsFirst: Boolean,
    merged: Boolean,
    initial: Boolean,
    output: Seq[Attribute],
    spec: OperatorSpec,
    left: LogicalPlan,
    right: LogicalPlan
) extends BinaryNode
    with StatefulPlanShim
    with MultiInstanceRelation {

  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))

  /** The same with a function that emits other columns. */
  def emitting(
      function: OperatorFunction,
      schema: StructType,
      spec: OperatorSpec
  ): TwoInputProcess = {
    val inputs = (KeyedInput(left, keys, columns), KeyedInput(right, rightKeys, rightColumns))
    val (first, second) = if (rightIsFirst) inputs.swap else inputs
    copy(
      function = function,
      output = TwoInputProcess.output(first, second, schema, spec.sideOutputs),
      spec = spec
    )
  }

  override def producedAttributes: AttributeSet = AttributeSet(output)

  override protected def withNewChildrenInternal(
      newLeft: LogicalPlan,
      newRight: LogicalPlan
  ): TwoInputProcess = copy(left = newLeft, right = newRight)
}

private[keystate] object TwoInputProcess {

  /** An operator of two inputs.
    *
    * @param orders
    *   what each input's rows are sorted by
    * @param schema
    *   of what the function emits
    */
  def connect(
      function: OperatorFunction,
      first: KeyedInput,
      second: KeyedInput,
      orders: (Seq[SortOrder], Seq[SortOrder]),
      merged: Boolean,
      schema: StructType,
      spec: OperatorSpec
  ): TwoInputProcess = {
    if (!sameTypes(first.keys, second.keys))
      throw KeystateErrors.keysDiffer(described(first.keys), described(second.keys))
    if (merged) checkMerged(orders._1.head, orders._2.head)
    // The operator asks its left child whether the query is a stream.
    val swapped = second.child.isStreaming && !first.child.isStreaming
    val ((left, order), (right, rightOrder)) =
      if (swapped) ((second, orders._2), (first, orders._1))
      else ((first, orders._1), (second, orders._2))
    val (other, renew) = renewed(right)
    TwoInputProcess(
      function,
      left.keys,
      left.columns,
      order,
      other.keys,
      other.columns,
      renewedOrder(rightOrder, renew),
      swapped,
      merged,
      initial = false,
      output(first, second, schema, spec.sideOutputs),
      spec,
      left.child,
      other.child
    )
  }

  /** An operator of one input, whose function is given initial state before its rows.
    *
    * @param order
    *   what the rows of the initial state are sorted by
    */
  def initialized(
      operator: KeyedProcess,
      initial: KeyedInput,
      order: Seq[SortOrder]
  ): TwoInputProcess = {
    if (initial.child.isStreaming) throw KeystateErrors.initialStateIsAStream()
    if (!sameTypes(operator.keys, initial.keys))
      throw KeystateErrors.initialKeysDiffer(described(operator.keys), described(initial.keys))
    val (other, renew) = renewed(initial)
    TwoInputProcess(
      operator.function,
      operator.keys,
      operator.columns,
      operator.order,
      other.keys,
      other.columns,
      renewedOrder(order, renew),
      rightIsFirst = false,
      merged = false,
      initial = true,
      operator.output,
      operator.spec,
      operator.child,
      other.child
    )
  }

  /** An input with new columns, because both inputs may come from one DataFrame; and which column
    * became which.
    */
  private def renewed(input: KeyedInput): (KeyedInput, AttributeMap[Attribute]) = {
    val columns = input.child.output.map(column => Alias(column, column.name)())
    val renew = AttributeMap(input.child.output.zip(columns.map(_.toAttribute)))
    val child = Project(columns, input.child)
    (KeyedInput(child, input.keys.map(renew), input.columns.map(renew)), renew)
  }

  private def renewedOrder(
      order: Seq[SortOrder],
      renew: AttributeMap[Attribute]
  ): Seq[SortOrder] =
    order.map(_.transform { case a: Attribute => renew(a) }.asInstanceOf[SortOrder])

  private def sameTypes(a: Seq[Expression], b: Seq[Expression]): Boolean =
    a.map(_.dataType.asNullable) == b.map(_.dataType.asNullable)

  private def described(keys: Seq[Attribute]): String =
    keys.map(key => s"${key.name} ${key.dataType.sql}").mkString(", ")

  private def checkMerged(one: SortOrder, two: SortOrder): Unit =
    if (
      !sameTypes(Seq(one), Seq(two)) || one.direction != two.direction ||
      one.nullOrdering != two.nullOrdering
    )
      throw KeystateErrors.ordersDiffer(one.sql, one.dataType.sql, two.sql, two.dataType.sql)

  /** The output columns. Only one of them may carry on a watermark: if no column is the first
    * input's event time, it may be the second one's.
    */
  private def output(
      first: KeyedInput,
      second: KeyedInput,
      schema: StructType,
      sideOutputs: Boolean
  ): Seq[Attribute] = {
    val marked = first.output(schema, sideOutputs)
    if (DataTypeUtils.fromAttributes(marked) != schema) marked
    else second.output(schema, sideOutputs)
  }
}
