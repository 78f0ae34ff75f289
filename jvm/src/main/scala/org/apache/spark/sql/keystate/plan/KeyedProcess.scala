package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

import org.apache.spark.sql.keystate.operator.OperatorFunction
import org.apache.spark.sql.keystate.shim.StatefulPlanShim
import org.apache.spark.sql.keystate.spec.OperatorSpec

/** A function with keyed state that is applied to a stream or to a batch query.
  *
  * @param keys
  *   the columns of `child` that make up the key
  * @param columns
  *   the columns of `child` that the function sees; a column that was added for a key is not one of
  *   them
  * @param order
  *   what the rows of a task are sorted by; none if their order does not matter
  */
private[keystate] case class KeyedProcess(
    function: OperatorFunction,
    keys: Seq[Attribute],
    columns: Seq[Attribute],
    output: Seq[Attribute],
    spec: OperatorSpec,
    order: Seq[SortOrder],
    child: LogicalPlan
) extends UnaryNode
    with StatefulPlanShim
    with MultiInstanceRelation {

  /** Gives the output new columns, so that a result can be joined with itself. */
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))

  override def producedAttributes: AttributeSet = AttributeSet(output)

  override protected def withNewChildInternal(newChild: LogicalPlan): KeyedProcess =
    copy(child = newChild)
}
