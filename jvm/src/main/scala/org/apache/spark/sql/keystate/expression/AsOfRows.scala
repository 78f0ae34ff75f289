package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

/** Makes the stored rows and the results of an as-of join. One thread at a time. */
private[expression] final class AsOfRows(join: AsOfJoin) extends AutoCloseable {
  private val (ofLeft, ofRight) = (join.left.columns, join.right.columns)

  /** A row as it is stored. */
  val right: UnsafeProjection = UnsafeProjection.create(join.right.stored)
  val left: UnsafeProjection = UnsafeProjection.create(join.left.stored)

  /** For rows that are stored. */
  val storedRight = new UnsafeRow(ofRight.size)
  val storedLeft = new UnsafeRow(ofLeft.size)

  /** Which of the right rows of a time counts; None if it is the last that came. */
  val order: Option[BaseOrdering] =
    Option.when(join.right.order.nonEmpty)(RowOrdering.create(join.right.order, ofRight))

  private val nothing = new GenericInternalRow(ofRight.size)
  private val joined = new JoinedRow
  private val result = {
    val columns = (ofLeft ++ ofRight.take(join.right.output)).map(_.dataType)
    val positions = ofLeft.indices ++ (0 until join.right.output).map(_ + ofLeft.size)
    val values = columns.zip(positions).map { case (of, i) =>
      BoundReference(i, of, nullable = true)
    }
    def none = Literal(null, join.left.stored)
    UnsafeProjection.create(if (join.late) Seq(CreateStruct(values), none) else values)
  }

  /** In the output columns, the same row each time. */
  def matched(left: InternalRow, right: InternalRow): InternalRow = result(joined(left, right))

  def unmatched(left: InternalRow): InternalRow = matched(left, nothing)

  override def close(): Unit = ()
}
