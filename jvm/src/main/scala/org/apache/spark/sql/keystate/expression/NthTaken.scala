package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.catalyst.expressions.{
  Add, AttributeReference, EqualTo, Expression, If, Literal
}
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.types.{DataType, LongType}

/** The value of the row that comes so many rows after the first one, or before the last one; null if
  * there are not so many. Rows with nulls count.
  */
private[keystate] final case class NthTaken(child: Expression, offset: Int, fromLast: Boolean)
    extends DeclarativeAggregate
    with UnaryLike[Expression] {
  override def nullable: Boolean = true
  override def dataType: DataType = child.dataType
  override def prettyName: String = if (fromLast) "last" else "first"

  // From the last: the newest value comes first. From the first: the value, and how many there were.
  private lazy val values = (0 to (if (fromLast) offset else 0)).map { i =>
    AttributeReference(s"value$i", child.dataType)()
  }
  private lazy val count = AttributeReference("count", LongType, nullable = false)()

  override lazy val aggBufferAttributes: Seq[AttributeReference] =
    if (fromLast) values else values :+ count
  override lazy val initialValues: Seq[Expression] = {
    val none = values.map(value => Literal(null, value.dataType))
    if (fromLast) none else none :+ Literal(0L)
  }
  override lazy val updateExpressions: Seq[Expression] =
    if (fromLast) child +: values.init
    else
      Seq(If(EqualTo(count, Literal(offset.toLong)), child, values.head), Add(count, Literal(1L)))
  override lazy val evaluateExpression: Expression = values.last

  /** Rows of a run come one by one. */
  override lazy val mergeExpressions: Seq[Expression] = aggBufferAttributes.map(_.right)

  override protected def withNewChildInternal(newChild: Expression): NthTaken =
    copy(child = newChild)
}
