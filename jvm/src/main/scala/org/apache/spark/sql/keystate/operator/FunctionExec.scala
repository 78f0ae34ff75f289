package org.apache.spark.sql.keystate.operator

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{
  BroadcastDistribution, Distribution, IdentityBroadcastMode, UnspecifiedDistribution
}
import org.apache.spark.sql.execution.BinaryExecNode

import org.apache.spark.sql.keystate.spec.OperatorSpec

/** The part that the operators of streams and of batch queries share: a function over the rows of
  * the left child, and of the right child if there is a second input.
  */
private[keystate] trait FunctionExec extends BinaryExecNode {
  def function: OperatorFunction
  def spec: OperatorSpec

  /** The sort order of the left child's rows in a task. */
  def order: Seq[SortOrder]

  /** The columns that the operator reads of the right child. */
  def second: Option[SecondInput]

  /** The key columns of the left child. */
  def groupingAttributes: Seq[Attribute]

  /** The left child's columns that the function sees. */
  def dataAttributes: Seq[Attribute]

  /** Whether the right child is read. */
  protected def readsSecond: Boolean

  /** The distribution that brings the rows of a key to one task. */
  protected def byKey(keys: Seq[Attribute]): Distribution

  protected def keyedSecond: Option[SecondInput] = second.filter(_.isKeyed)

  protected def ofSecond: Distribution = second.filter(_ => readsSecond) match {
    case Some(keyed) if keyed.isKeyed => byKey(keyed.rows.keys)
    case Some(_) => BroadcastDistribution(IdentityBroadcastMode)
    case None => UnspecifiedDistribution
  }

  /** Rows need not be sorted by key, because a function finds its states for every row. If the user
    * asks for an order, sorting all rows of a task also sorts each key's rows. Sorting by one
    * column is cheaper than sorting by key and column.
    */
  override def requiredChildOrdering: Seq[Seq[SortOrder]] =
    Seq(order, keyedSecond.filter(_ => readsSecond).fold(Seq.empty[SortOrder])(_.rows.order))

  protected def functionInputs: FunctionInputs = FunctionInputs(
    InputColumns(left.output, dataAttributes, groupingAttributes),
    order,
    keyedSecond.map(right.output -> _)
  )

  /** One element for each task: the rows of each input. Both children have the same partitions. The
    * iterators never leave their task.
    *
    * Relies on `mapPartitionsInternal`, which does not clean closures, as Spark's operators do.
    * Cleaning parses this class, in each micro-batch.
    */
  protected def inputs(): RDD[Seq[Iterator[InternalRow]]] = keyedSecond match {
    case None =>
      left
        .execute()
        .mapPartitionsInternal((rows: Iterator[InternalRow]) => Iterator.single(Seq(rows)))
    case Some(keyed) =>
      val rightIsFirst = keyed.isFirst
      if (readsSecond)
        left.execute().zipPartitions(right.execute()) { (left, right) =>
          Iterator.single(FunctionInputs.byIndex(left, right, rightIsFirst))
        }
      else
        left.execute().mapPartitionsInternal { (left: Iterator[InternalRow]) =>
          Iterator.single(FunctionInputs.byIndex(left, Iterator.empty[InternalRow], rightIsFirst))
        }
  }

  /** The broadcast elements, collected once for an execution in the order of the right child's
    * partitions. So every subtask, and every attempt of a task, sees the same.
    */
  protected def broadcastElements(): Option[OperatorTasks.Elements] =
    second.filter(!_.isKeyed && readsSecond).map { broadcast =>
      val rows = right.executeBroadcast[Array[InternalRow]]()
      new OperatorTasks.Elements(broadcast.rows.columns, right.output, rows)
    }
}
