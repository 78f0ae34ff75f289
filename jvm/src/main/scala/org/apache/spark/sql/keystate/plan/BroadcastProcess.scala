package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan, Project}

import org.apache.spark.sql.keystate.operator.OperatorFunction
import org.apache.spark.sql.keystate.shim.StatefulPlanShim
import org.apache.spark.sql.keystate.spec.OperatorSpec

/** A function that is applied to the rows of one input, keyed or not, and to every row of another
  * input, which all subtasks get.
  *
  * @param keys
  *   the columns of `left` that make up the key; none if the function is not keyed
  * @param columns
  *   the columns of `left` that the function sees
  * @param broadcastColumns
  *   the columns of `right`, none of which may be one of `left`
  * @param order
  *   what the rows of `left` are sorted by in a task
  */
private[keystate] case class BroadcastProcess(
    function: OperatorFunction,
    keys: Seq[Attribute],
    columns: Seq[Attribute],
    broadcastColumns: Seq[Attribute],
    output: Seq[Attribute],
    spec: OperatorSpec,
    order: Seq[SortOrder],
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
  ): BroadcastProcess = copy(left = newLeft, right = newRight)
}

private[keystate] object BroadcastProcess {

  /** Adds a broadcast input to an operator. */
  def connect(operator: KeyedProcess, broadcast: LogicalPlan): BroadcastProcess = {
    // New columns, because both inputs may come from one DataFrame.
    val columns = broadcast.output.map(column => Alias(column, column.name)())
    BroadcastProcess(
      operator.function,
      operator.keys,
      operator.columns,
      columns.map(_.toAttribute),
      operator.output,
      operator.spec,
      operator.order,
      operator.child,
      Project(columns, broadcast)
    )
  }
}
