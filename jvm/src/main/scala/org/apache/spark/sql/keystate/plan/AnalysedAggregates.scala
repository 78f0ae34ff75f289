package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateExpression, AggregateFunction, DeclarativeAggregate, ImperativeAggregate
}
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, AttributeReference, Cast, Expression, NamedExpression, PrettyAttribute, PythonUDAF,
  RuntimeReplaceable
}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Generate, LogicalPlan, Window}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}

import keystate.errors.KeystateErrors

/** An aggregate of a query, as Spark analyses it.
  *
  * @param calls
  *   the aggregate functions in it
  * @param value
  *   its value: an expression over the functions' results and the key columns
  * @param text
  *   its SQL, by the names of columns
  * @param columns
  *   these names
  */
private[plan] final case class AnalysedAggregate(
    name: String,
    calls: Seq[AggregateCall],
    value: Expression,
    text: String,
    columns: Set[String]
)

/** An aggregate function and its filter, over columns of the input.
  *
  * @param result
  *   its result, in the value of its aggregate
  */
private[plan] final case class AggregateCall(
    function: AggregateFunction,
    filter: Option[Expression],
    result: Attribute
)

private[plan] object AnalysedAggregates {

  /** Has Spark analyse aggregates as it does those of `groupBy(keys).agg(aggregates)`.
    *
    * @param keys
    *   the key columns of a Dataset, as expressions; `keyColumns` are those of the operator's input
    */
  def of(
      df: ClassicDataset[_],
      keys: Seq[Column],
      keyColumns: Seq[Attribute],
      aggregates: Seq[Column]
  ): Seq[AnalysedAggregate] = {
    if (aggregates.isEmpty)
      throw KeystateErrors.declaration("aggregate needs an aggregate, such as sum(\"amount\").")
    val grouped = df.groupBy(keys: _*).agg(aggregates.head, aggregates.tail: _*)
    grouped.queryExecution.analyzed match {
      case plan: Aggregate if plan.child.sameResult(df.queryExecution.analyzed) =>
        val named = plan.aggregateExpressions.takeRight(aggregates.size)
        checkNames(named)
        named.map(analysed(_, plan.groupingExpressions.zip(keyColumns)))
      case other => throw refused(other)
    }
  }

  private def analysed(
      named: NamedExpression,
      keys: Seq[(Expression, Attribute)]
  ): AnalysedAggregate = {
    val calls = named.collect { case call: AggregateExpression => call }.distinct.map { call =>
      check(named.name, call)
      val function = replaced(call.aggregateFunction).asInstanceOf[AggregateFunction]
      val result = AttributeReference("result", function.dataType, function.nullable)()
      // A copy: what is shared by two aggregates would have one buffer.
      call -> AggregateCall(function.clone().asInstanceOf[AggregateFunction], call.filter, result)
    }
    if (calls.isEmpty)
      throw KeystateErrors.declaration(s"'${named.name}' has no aggregate function in it.")
    val value = named.children.head.transformDown {
      case call: AggregateExpression => calls.find(_._1 == call).get._2.result
      case key if keys.exists(_._1.semanticEquals(key)) =>
        keys.find(_._1.semanticEquals(key)).get._2
    }
    val names = named.references.map(_.name).toSet
    AnalysedAggregate(named.name, calls.map(_._2), value, textOf(named.children.head), names)
  }

  /** What the optimizer would replace: until then the function has no buffers. */
  def replaced(expression: Expression): Expression = expression match {
    case other: RuntimeReplaceable => replaced(other.replacement)
    case other => other.mapChildren(replaced)
  }

  private def check(name: String, call: AggregateExpression): Unit = {
    def refuse(what: String) =
      throw KeystateErrors.declaration(s"'$name' can't be aggregated by a key's state: $what.")
    if (call.isDistinct)
      refuse("DISTINCT needs all values; use approx_count_distinct, or collect_set and its size")
    call.aggregateFunction match {
      case udf: PythonUDAF =>
        refuse(s"${udf.name} is an aggregate function in Python; give an AggregateFunction")
      case _: DeclarativeAggregate | _: ImperativeAggregate | _: RuntimeReplaceable =>
      case other => refuse(s"${other.prettyName} has no buffers")
    }
  }

  private def checkNames(named: Seq[NamedExpression]): Unit =
    Names.repeated(named.map(_.name)).foreach { name =>
      throw KeystateErrors.declaration(
        s"Two aggregates are named '$name': give one another name, with alias."
      )
    }

  private def refused(plan: LogicalPlan): Throwable = {
    val what = plan.collectFirst {
      case _: Window => "a window function"
      case _: Generate => "a function that makes rows, such as explode"
    }
    KeystateErrors.declaration(
      s"aggregate takes aggregate functions over one row's columns, but there is ${what.getOrElse("something else")} " +
        "in it: apply that to the input before, or to the result."
    )
  }

  /** SQL that is the same whatever the columns' ids are, and without the casts that Spark adds. */
  private def textOf(expression: Expression): String = expression.transformDown {
    case cast: Cast if cast.getTagValue(Cast.USER_SPECIFIED_CAST).isEmpty =>
      PrettyAttribute(textOf(cast.child), cast.dataType)
    case column: Attribute => PrettyAttribute(quoteIfNeeded(column.name), column.dataType)
  }.sql
}
