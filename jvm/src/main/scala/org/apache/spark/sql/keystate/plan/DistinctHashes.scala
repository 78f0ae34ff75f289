package org.apache.spark.sql.keystate.plan

import java.util.concurrent.TimeUnit

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeReference, AttributeSet, UnsafeProjection
}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.types._

/** Rows with the same values in some columns become one, in each task, before a shuffle: their number
  * and, of other columns, the least hashes of the values that are not null, by which is told how many
  * different ones there are. There may be several rows of a group, as of [[PartialAggregate]].
  *
  * @param grouping
  *   columns of the child, of types that Spark compares by their bytes
  * @param values
  *   columns of the child, of types that [[DistinctHashes.hashOf]] knows
  * @param wanted
  *   for each of these how many hashes are wanted
  * @param made
  *   a long and, for each value, bytes: see [[LeastHashes]]
  */
private[keystate] case class DistinctHashes(
    grouping: Seq[Attribute],
    values: Seq[Attribute],
    wanted: Seq[Int],
    made: Seq[Attribute],
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = grouping ++ made
  override def producedAttributes: AttributeSet = AttributeSet(made)

  override protected def withNewChildInternal(newChild: LogicalPlan): DistinctHashes =
    copy(child = newChild)
}

private[keystate] object DistinctHashes {

  /** Groups by the first columns; the others are the values. */
  def of(child: LogicalPlan, groupColumns: Int, wanted: Seq[Int]): DistinctHashes = {
    val (grouping, values) = child.output.splitAt(groupColumns)
    val made = AttributeReference("_0", LongType, nullable = false)() +:
      values.indices.map(i => AttributeReference(s"_${i + 1}", BinaryType, nullable = false)())
    DistinctHashes(grouping, values, wanted, made, child)
  }

  /** The hash of a row's value, from which keystate/_worker/aggregates/distinct_values.py makes the
    * same: of dates as microseconds, and of floats as the bits of doubles.
    */
  private[plan] def hashOf(kind: DataType, column: Int): InternalRow => Long = {
    val number: InternalRow => Long = (kind: @unchecked) match {
      case BooleanType => row => if (row.getBoolean(column)) 1L else 0L
      case ByteType => row => row.getByte(column).toLong
      case ShortType => row => row.getShort(column).toLong
      case IntegerType => row => row.getInt(column).toLong
      case LongType | TimestampType | TimestampNTZType => row => row.getLong(column)
      case DateType => row => row.getInt(column) * TimeUnit.DAYS.toMicros(1)
      case FloatType => row => bits(row.getFloat(column).toDouble)
      case DoubleType => row => bits(row.getDouble(column))
    }
    row => LeastHashes.mixed(number(row))
  }

  /** The same for each NaN, and for both zeros. */
  private def bits(number: Double): Long = java.lang.Double.doubleToLongBits(number + 0.0)
}

private[keystate] case class DistinctHashesExec(
    grouping: Seq[Attribute],
    values: Seq[Attribute],
    wanted: Seq[Int],
    made: Seq[Attribute],
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = grouping ++ made
  override def producedAttributes: AttributeSet = AttributeSet(made)

  override protected def doExecute(): RDD[InternalRow] = {
    val (apart, emitted, numbers, input) = (grouping, output, wanted, child.output)
    val columns = values.map(value => input.indexWhere(_.exprId == value.exprId))
    val types = values.map(_.dataType)
    child.execute().mapPartitionsInternal { rows =>
      val hashes = types.zip(columns).map { case (kind, column) =>
        DistinctHashes.hashOf(kind, column)
      }
      val groups = new HashedGroups(numbers, columns.toArray, hashes.toArray)
      val encode = UnsafeProjection.create(emitted, emitted)
      groups.of(rows, UnsafeProjection.create(apart, input)).map(encode)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): DistinctHashesExec =
    copy(child = newChild)
}
