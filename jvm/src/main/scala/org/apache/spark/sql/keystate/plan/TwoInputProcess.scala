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
    output: Seq[Attribute],
    spec: OperatorSpec,
    left: LogicalPlan,
    right: LogicalPlan
) extends BinaryNode
    with StatefulPlanShim
    with MultiInstanceRelation {

  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))

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
    check(first.keys, second.keys, orders, merged)
    // The operator asks its left child whether the query is a stream.
    val swapped = second.child.isStreaming && !first.child.isStreaming
    val ((left, order), (right, rightOrder)) =
      if (swapped) ((second, orders._2), (first, orders._1))
      else ((first, orders._1), (second, orders._2))
    // New columns, because both inputs may come from one DataFrame.
    val renewed = right.child.output.map(column => Alias(column, column.name)())
    val renew = AttributeMap(right.child.output.zip(renewed.map(_.toAttribute)))
    TwoInputProcess(
      function,
      left.keys,
      left.columns,
      order,
      right.keys.map(renew),
      right.columns.map(renew),
      rightOrder.map(_.transform { case a: Attribute => renew(a) }.asInstanceOf[SortOrder]),
      swapped,
      merged,
      output(first, second, schema, spec.sideOutputs),
      spec,
      left.child,
      Project(renewed, right.child)
    )
  }

  private def check(
      first: Seq[Attribute],
      second: Seq[Attribute],
      orders: (Seq[SortOrder], Seq[SortOrder]),
      merged: Boolean
  ): Unit = {
    def same(a: Seq[Expression], b: Seq[Expression]) =
      a.map(_.dataType.asNullable) == b.map(_.dataType.asNullable)
    def types(keys: Seq[Attribute]) = keys.map(k => s"${k.name} ${k.dataType.sql}").mkString(", ")
    if (!same(first, second)) throw KeystateErrors.keysDiffer(types(first), types(second))
    if (merged) {
      val (one, two) = (orders._1.head, orders._2.head)
      if (
        !same(Seq(one), Seq(two)) || one.direction != two.direction ||
        one.nullOrdering != two.nullOrdering
      )
        throw KeystateErrors.ordersDiffer(one.sql, one.dataType.sql, two.sql, two.dataType.sql)
    }
  }

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
