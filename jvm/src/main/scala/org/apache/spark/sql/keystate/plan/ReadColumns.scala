package org.apache.spark.sql.keystate.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{
  Alias, Attribute, ExprId, Expression, NamedExpression, SortOrder
}
import org.apache.spark.sql.catalyst.trees.TreePattern
import org.apache.spark.sql.types.ObjectType

/** The columns that functions read: those of the input, and those that are computed before.
  *
  * @param input
  *   the columns of the input
  */
private[plan] final class ReadColumns(input: Seq[Attribute]) {
  private val computed = mutable.ArrayBuffer.empty[Alias]
  private val used = mutable.LinkedHashSet.empty[ExprId]

  /** The columns of the input that are read as they are. */
  def columns: Seq[Attribute] = input.filter(column => used(column.exprId))

  def made: Seq[NamedExpression] = computed.toSeq

  /** An argument of a function: a column for what depends on the row. What is the same for all rows
    * stays, for many functions want a literal; but not what is another in each micro-batch.
    */
  def apply(argument: Expression): Expression = argument match {
    case order: SortOrder => order.mapChildren(apply)
    case same if same.foldable && !same.containsPattern(TreePattern.CURRENT_LIKE) => same
    // An object can't be a column: it is made of columns in the function.
    case made if made.exists(_.dataType.isInstanceOf[ObjectType]) =>
      made.references.foreach(column => used += column.exprId)
      made
    case other => column(other)
  }

  def column(value: Expression): Attribute = value match {
    case column: Attribute =>
      used += column.exprId
      column
    case other =>
      computed.find(_.child.semanticEquals(other)).map(_.toAttribute).getOrElse {
        val alias = Alias(other, s"_argument${computed.size}")()
        computed += alias
        alias.toAttribute
      }
  }
}
