package org.apache.spark.sql.keystate.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/** Leaves out rows that have the same in some columns as one that came before in their task: before
  * the shuffle of what a repeated row does not change. Some repeats stay, for only so many rows are
  * remembered.
  */
private[keystate] case class WithoutRepeats(columns: Seq[Attribute], child: LogicalPlan)
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): WithoutRepeats =
    copy(child = newChild)
}

private[keystate] case class WithoutRepeatsExec(columns: Seq[Attribute], child: SparkPlan)
    extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val (compared, of) = (columns, child.output)
    child.execute().mapPartitionsInternal { rows =>
      val projection = UnsafeProjection.create(compared, of)
      val recent = new RecentRows(compared.map(_.dataType))
      rows.filter(row => recent.isOff || recent.isNew(projection(row)))
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): WithoutRepeatsExec =
    copy(child = newChild)
}
