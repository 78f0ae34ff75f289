package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.operator.{InputRole, InputRows, OperatorFunction, SecondInput}
import org.apache.spark.sql.keystate.shim.StatefulPlanShim
import org.apache.spark.sql.keystate.spec.OperatorSpec

/** A function with state that is applied to the rows of one input or two, in a stream or in a batch
  * query.
  *
  * @param rows
  *   the columns that it reads of `left`
  * @param second
  *   the columns that it reads of `right`; None if it has one input, then `right` is empty
  */
private[keystate] case class KeyedProcess(
    function: OperatorFunction,
    rows: InputRows,
    second: Option[SecondInput],
    output: Seq[Attribute],
    spec: OperatorSpec,
    left: LogicalPlan,
    right: LogicalPlan
) extends BinaryNode
    with StatefulPlanShim
    with MultiInstanceRelation {

  /** Gives the output new columns, so that a result can be joined with itself. */
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))

  override def producedAttributes: AttributeSet = AttributeSet(output)

  /** This operator with a function that emits other columns. */
  def emitting(function: OperatorFunction, schema: StructType, spec: OperatorSpec): KeyedProcess = {
    val other = second.map(it => OperatorInput(right, it.rows) -> it.role)
    val inputs = KeyedProcess.inputs(OperatorInput(left, rows), other)
    val ordered = if (second.exists(_.isFirst)) inputs.reverse else inputs
    val output = KeyedProcess.output(ordered, schema, spec.sideOutputs)
    copy(function = function, output = output, spec = spec)
  }

  override protected def withNewChildrenInternal(
      newLeft: LogicalPlan,
      newRight: LogicalPlan
  ): KeyedProcess = copy(left = newLeft, right = newRight)
}

private[keystate] object KeyedProcess {

  /** An operator.
    *
    * @param second
    *   its second input, if it has one
    * @param schema
    *   the schema of the function's results
    */
  def of(
      function: OperatorFunction,
      first: OperatorInput,
      second: Option[(OperatorInput, InputRole)],
      schema: StructType,
      spec: OperatorSpec
  ): KeyedProcess = {
    second.foreach { case (input, role) => check(first, input, role) }
    val emitted = output(inputs(first, second), schema, spec.sideOutputs)
    second match {
      case None =>
        KeyedProcess(function, first.rows, None, emitted, spec, first.child, LocalRelation(Nil))
      case Some((input, role)) =>
        // The operator asks its left child whether the query is a stream.
        val swapped = input.child.isStreaming && !first.child.isStreaming
        val (left, right) = if (swapped) (input, first.renewed) else (first, input.renewed)
        val read = SecondInput(right.rows, role, isFirst = swapped)
        KeyedProcess(function, left.rows, Some(read), emitted, spec, left.child, right.child)
    }
  }

  /** The inputs whose rows the function takes. */
  private def inputs(
      first: OperatorInput,
      second: Option[(OperatorInput, InputRole)]
  ): Seq[OperatorInput] =
    first +: second.toSeq.collect { case (input, InputRole.Connected | InputRole.Merged) =>
      input
    }

  /** The output columns. Only one of them may carry on a watermark: if no column is the first
    * input's event time, it may be the second one's.
    */
  private def output(
      inputs: Seq[OperatorInput],
      schema: StructType,
      sideOutputs: Boolean
  ): Seq[Attribute] = {
    val marked = inputs.map(_.output(schema, sideOutputs))
    marked.find(DataTypeUtils.fromAttributes(_) != schema).getOrElse(marked.head)
  }

  private def check(first: OperatorInput, second: OperatorInput, role: InputRole): Unit =
    role match {
      case InputRole.Broadcast =>
      case InputRole.Initial =>
        if (second.child.isStreaming) throw KeystateErrors.initialStateIsAStream()
        if (!sameTypes(first.keys, second.keys))
          throw KeystateErrors.initialKeysDiffer(described(first.keys), described(second.keys))
      case InputRole.Connected | InputRole.Merged | InputRole.Ahead =>
        if (!sameTypes(first.keys, second.keys))
          throw KeystateErrors.keysDiffer(described(first.keys), described(second.keys))
        if (role == InputRole.Merged) checkMerged(first.rows.order.head, second.rows.order.head)
    }

  private def checkMerged(one: SortOrder, two: SortOrder): Unit =
    if (
      !sameTypes(Seq(one), Seq(two)) || one.direction != two.direction ||
      one.nullOrdering != two.nullOrdering
    )
      throw KeystateErrors.ordersDiffer(one.sql, one.dataType.sql, two.sql, two.dataType.sql)

  private def sameTypes(a: Seq[Expression], b: Seq[Expression]): Boolean =
    a.map(_.dataType.asNullable) == b.map(_.dataType.asNullable)

  private[plan] def described(keys: Seq[Attribute]): String =
    keys.map(key => s"${key.name} ${key.dataType.sql}").mkString(", ")
}
