package org.apache.spark.sql.keystate.plan

import org.json4s.jackson.JsonMethods.parse
import org.json4s.{JArray, JInt, JString}

import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateExpression, Count, DeclarativeAggregate, Max, Min, Partial, Sum
}
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeReference, AttributeSet, Expression, Literal
}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.HashAggregateExec
import org.apache.spark.sql.internal.SQLConf

/** Rows with the same values in some columns become one, in each task, before a shuffle: what Spark's
  * `Aggregate` does first, without what it does after the shuffle. There may be several rows of a
  * group: of different tasks, and of one whose groups did not fit into memory.
  *
  * @param grouping
  *   columns of the child, of types that Spark compares by their bytes
  * @param functions
  *   of columns of the child; each has one buffer, of a type that Spark can update in place
  * @param buffers
  *   the functions' results so far
  */
private[keystate] case class PartialAggregate(
    grouping: Seq[Attribute],
    functions: Seq[DeclarativeAggregate],
    buffers: Seq[Attribute],
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = grouping ++ buffers
  override def producedAttributes: AttributeSet = AttributeSet(buffers)

  /** Relies on an operator in mode `Partial` that asks for no distribution, and on what it emits: the
    * groups' columns and the functions' buffers, under the attributes that it is given.
    */
  def exec(planned: SparkPlan): SparkPlan = {
    val partial = functions.map(AggregateExpression(_, Partial, isDistinct = false))
    HashAggregateExec(
      requiredChildDistributionExpressions = None,
      isStreaming = false,
      numShufflePartitions = None,
      groupingExpressions = grouping,
      aggregateExpressions = partial,
      aggregateAttributes = functions.flatMap(_.aggBufferAttributes),
      initialInputBufferOffset = 0,
      resultExpressions = output,
      child = planned
    )
  }

  override protected def withNewChildInternal(newChild: LogicalPlan): PartialAggregate =
    copy(child = newChild)
}

private[keystate] object PartialAggregate {

  /** Groups by the first columns.
    *
    * @param functions
    *   JSON of pairs: the name of a function, and the index of the column that it is of; -1 if it is
    *   of rows
    */
  def of(child: LogicalPlan, groupColumns: Int, functions: String): PartialAggregate = {
    val JArray(told) = parse(functions): @unchecked
    val made = told.map {
      case JArray(List(JString(name), JInt(column))) =>
        function(name, if (column < 0) Literal(1) else child.output(column.toInt))
      case other => throw new IllegalArgumentException(s"no function of a column: $other")
    }
    val buffers = made.zipWithIndex.map { case (each, i) =>
      val Seq(buffer) = each.aggBufferAttributes: @unchecked
      AttributeReference(s"_$i", buffer.dataType)()
    }
    PartialAggregate(child.output.take(groupColumns), made, buffers, child)
  }

  private def function(name: String, of: Expression): DeclarativeAggregate = name match {
    case "count" => Count(of)
    case "min" => Min(of)
    case "max" => Max(of)
    // It takes its mode from the configuration at hand: a sum that does not fit has to fail.
    case "sum" => SQLConf.withExistingConf(ansi)(new Sum(of))
  }

  private def ansi: SQLConf = {
    val conf = SQLConf.get.clone()
    conf.setConf(SQLConf.ANSI_ENABLED, true)
    conf
  }
}
