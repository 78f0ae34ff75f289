package org.apache.spark.sql.keystate.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder, UnsafeProjection, UnsafeRow}
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
      val recent = new RecentRows
      rows.filter(row => recent.isOff || recent.isNew(projection(row)))
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): WithoutRepeatsExec =
    copy(child = newChild)
}

/** Rows that have come, by their bytes: values that are equal and have other bytes count as
  * different. Each row has one place by its hash, where the last one is.
  */
private[plan] final class RecentRows {
  import RecentRows._

  private var places = new Array[UnsafeRow](Places)
  private var seen = 0
  private var repeats = 0

  /** Whether so few of the first rows were repeats that to go on looking would not pay. */
  def isOff: Boolean = places == null

  /** Whether a row is not known to have come before. It may be changed afterwards. */
  def isNew(row: UnsafeRow): Boolean = {
    val place = row.hashCode & (Places - 1)
    val last = places(place)
    val isRepeat = last != null && last == row
    if (isRepeat) repeats += 1
    else if (row.getSizeInBytes > LargestBytes) ()
    else if (last == null) places(place) = row.copy()
    else last.copyFrom(row)
    seen += 1
    if (seen == Sample && repeats < Sample / 8) places = null
    !isRepeat
  }
}

private[plan] object RecentRows {

  /** A power of two. With rows of the largest size they take 25 MB. */
  final val Places = 1 << 17
  final val LargestBytes = 128
  final val Sample = 1 << 16
}
