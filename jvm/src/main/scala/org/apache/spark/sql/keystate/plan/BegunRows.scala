package org.apache.spark.sql.keystate.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan

import org.apache.spark.sql.keystate.expression.{BegunRow, FilteredFunction}
import org.apache.spark.sql.keystate.operator.EachRowExec

/** Begins the buffers of functions with each row alone: in place of a [[PartialAggregate]] where no
  * row may wait for another, as in real-time mode.
  *
  * @param grouping
  *   columns of the child
  */
private[keystate] final case class BegunRows(
    grouping: Seq[Attribute],
    functions: Seq[FilteredFunction],
    output: Seq[Attribute],
    child: SparkPlan
) extends EachRowExec {
  override def producedAttributes: AttributeSet = AttributeSet(output) -- child.outputSet
  override def outputPartitioning: Partitioning = child.outputPartitioning

  override protected def doExecute(): RDD[InternalRow] = {
    val (columns, begun, read) = (grouping, functions, child.output)
    child.execute().mapPartitionsInternal { (rows: Iterator[InternalRow]) =>
      val begin = new BegunRow(columns, begun, read)
      rows.map(begin(_))
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): BegunRows =
    copy(child = newChild)
}
