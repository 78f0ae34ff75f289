package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateExpression, AggregateFunction, Partial, TypedImperativeAggregate
}
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeReference, AttributeSet, Expression, UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.{HashAggregateExec, ObjectHashAggregateExec}

import org.apache.spark.sql.keystate.expression.FilteredFunction
import org.apache.spark.sql.keystate.shim.RealTimeMode

/** Rows with the same values in some columns become one, in each task, before a shuffle: the part of
  * Spark's aggregation that is before its shuffle. There may be several rows of a group: of different
  * tasks, and of one whose groups did not fit into memory.
  *
  * The functions stand here without the `AggregateExpression` around them, which Spark's checks allow
  * in its own nodes only.
  *
  * @param grouping
  *   columns of the child, of types that Spark compares by their bytes
  * @param functions
  *   of columns of the child
  * @param filters
  *   for each function the boolean column by which rows count
  * @param buffers
  *   the functions' buffers
  */
private[keystate] case class PartialAggregate(
    grouping: Seq[Attribute],
    functions: Seq[AggregateFunction],
    filters: Seq[Option[Expression]],
    buffers: Seq[Attribute],
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = grouping ++ buffers
  override def producedAttributes: AttributeSet = AttributeSet(buffers)

  /** Chooses the operator as Spark's `AggUtils` does, except for the sorting one. Relies on an operator
    * in mode `Partial` that asks for no distribution, and on what it emits: the columns of the group
    * and the functions' buffers, by position.
    */
  def exec(planned: SparkPlan): SparkPlan = if (RealTimeMode.isOf(child)) eachRow(planned)
  else {
    val partial = functions.zip(filters).map { case (function, filter) =>
      AggregateExpression(function, Partial, isDistinct = false, filter)
    }
    val attributes = functions.flatMap(_.aggBufferAttributes)
    if (PartialAggregate.isFixed(functions))
      HashAggregateExec(None, false, None, grouping, partial, attributes, 0, output, planned)
    else
      ObjectHashAggregateExec(None, false, None, grouping, partial, attributes, 0, output, planned)
  }

  private def eachRow(planned: SparkPlan): SparkPlan = {
    val filtered = functions.zip(filters).map { case (function, filter) =>
      FilteredFunction(function, filter.map(_.asInstanceOf[Attribute]))
    }
    BegunRows(grouping, filtered, output, planned)
  }

  override protected def withNewChildInternal(newChild: LogicalPlan): PartialAggregate =
    copy(child = newChild)
}

private[keystate] object PartialAggregate {

  def of(
      grouping: Seq[Attribute],
      functions: Seq[(AggregateFunction, Option[Expression])],
      child: LogicalPlan
  ): PartialAggregate = {
    val buffers = functions.flatMap(_._1.aggBufferAttributes).zipWithIndex.map { case (buffer, i) =>
      AttributeReference(s"_$i", buffer.dataType)()
    }
    PartialAggregate(grouping, functions.map(_._1), functions.map(_._2), buffers, child)
  }

  /** Whether Spark can aggregate these functions by hashing. By sorting it is not worth it. */
  def takes(functions: Seq[AggregateFunction]): Boolean =
    isFixed(functions) || functions.exists(_.isInstanceOf[TypedImperativeAggregate[_]])

  private def isFixed(functions: Seq[AggregateFunction]): Boolean =
    functions.flatMap(_.aggBufferAttributes).forall(buffer => UnsafeRow.isMutable(buffer.dataType))
}
