package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.analysis.UnresolvedDeserializer
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{
  Alias, Attribute, AttributeMap, AttributeSet, MetadataAttribute, NamedExpression, RowOrdering,
  SortOrder
}
import org.apache.spark.sql.catalyst.plans.logical.{
  AppendColumns, EventTimeWatermark, LogicalPlan, Project, Sort
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils.isBinaryStable
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.types.{MetadataBuilder, StructField, StructType, TimestampType}
import org.apache.spark.sql.{AnalysisException, Column}

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.ExactDecimals
import org.apache.spark.sql.keystate.operator.InputRows

/** An input of an operator.
  *
  * @param child
  *   the Dataset's plan, with extra columns for keys that are not columns of the Dataset
  * @param rows
  *   the columns that the operator reads of it
  */
private[keystate] final case class OperatorInput(child: LogicalPlan, rows: InputRows) {
  def keys: Seq[Attribute] = rows.keys
  def columns: Seq[Attribute] = rows.columns

  /** The output columns. One with the name and type of the input's event time column carries the
    * watermark on to the next stateful operator. With side outputs that is a field in the struct of
    * an output. Relies on Spark keeping a field's metadata when the field is selected.
    */
  def output(schema: StructType, sideOutputs: Boolean): Seq[Attribute] = {
    val seen = AttributeSet(columns)
    val eventTimes = child.output.filter { column =>
      column.metadata.contains(EventTimeWatermark.delayKey) && seen.contains(column)
    }
    def marked(struct: StructType): StructType = StructType(struct.map { column =>
      eventTimes
        .find(in => in.name == column.name && in.dataType == column.dataType)
        .fold(column)(in => column.copy(metadata = in.metadata))
    })
    val marks =
      if (!sideOutputs) marked(schema)
      else
        StructType(schema.map { output =>
          output.copy(dataType = marked(output.dataType.asInstanceOf[StructType]))
        })
    DataTypeUtils.toAttributes(marks)
  }

  /** The input, with this column as its event time, marked like a column with a watermark. */
  def timedBy(column: String): OperatorInput = {
    def refuse(problem: String) =
      throw KeystateErrors.declaration(s"The event time column '$column' $problem.")
    val named = columns
      .find(_.name == column)
      .getOrElse(refuse("is not in the input"))
    if (named.dataType != TimestampType) refuse("is not a timestamp")
    if (child.isStreaming && !named.metadata.contains(EventTimeWatermark.delayKey))
      refuse("has no watermark: call withWatermark on it before keying")
    if (child.isStreaming) this
    else {
      val mark = new MetadataBuilder()
        .withMetadata(named.metadata)
        .putLong(EventTimeWatermark.delayKey, 0)
        .build()
      val marked = columns.map(each => if (each eq named) each.withMetadata(mark) else each)
      copy(rows = rows.copy(columns = marked))
    }
  }

  /** The input with new columns, because both inputs of an operator may come from one DataFrame. */
  def renewed: OperatorInput = {
    val columns = child.output.map(column => Alias(column, column.name)())
    val renew = AttributeMap(child.output.zip(columns.map(_.toAttribute)))
    OperatorInput(
      Project(columns, child),
      rows.mapChildren(_.transform { case a: Attribute => renew(a) }).asInstanceOf[InputRows]
    )
  }
}

private[keystate] object OperatorInput {

  /** A column as a field of a schema: without its metadata, such as a watermark's mark. */
  private[plan] def field(column: Attribute): StructField =
    StructField(column.name, column.dataType, column.nullable)

  /** A key that is a column stays that column. For any other expression a column is added. */
  def byColumns(
      df: ClassicDataset[_],
      keys: Seq[Column],
      order: Seq[Column] = Nil
  ): OperatorInput = {
    val plan = df.queryExecution.analyzed
    def refused(hidden: Option[String]) =
      KeystateErrors.keyNotAColumn(keys.mkString(", "), hidden)
    val selected =
      try df.select(keys: _*).queryExecution.analyzed
      catch {
        // For an unknown name Spark looks for similar ones, and fails at a backtick.
        case e: AnalysisException if e.getCondition == "INVALID_ATTRIBUTE_NAME_SYNTAX" =>
          throw refused(None)
      }
    val resolved = selected match {
      case _ if keys.isEmpty => Nil
      case Project(list, child) if child.sameResult(plan) => list
      case other =>
        throw refused(hiddenColumn(other))
    }
    val extra = resolved.collect { case alias: Alias => alias }
    val child = if (extra.isEmpty) plan else Project(plan.output ++ extra, plan)
    OperatorInput(child, InputRows(checked(resolved), plan.output, ordered(df, order)))
  }

  /** The name of a file source's hidden column, if an expression uses one: Spark adds it to the
    * source only on request, so the plan would be a different one.
    */
  private def hiddenColumn(selected: LogicalPlan): Option[String] =
    selected.references.collectFirst { case MetadataAttribute(column) => column.name }

  /** A key that is no struct becomes a column named `key`, so that its hash is the value's. */
  def byFunction[T](
      df: ClassicDataset[T],
      function: T => Any,
      encoder: ExpressionEncoder[Any],
      order: Seq[Column]
  ): OperatorInput = {
    val plan = df.queryExecution.analyzed
    val input = df.exprEnc
    val exact = encoder.namedExpressions.map(ExactDecimals.ofKey)
    val keys: Seq[NamedExpression] =
      if (encoder.isSerializedAsStructForTopLevel) exact.collect { case key: NamedExpression =>
        key
      }
      else
        Seq(
          Alias(
            exact.head match {
              case Alias(child, _) => child
              case other => other
            },
            "key"
          )()
        )
    val child = new AppendColumns(
      function.asInstanceOf[Any => Any],
      input.clsTag.runtimeClass,
      input.schema,
      UnresolvedDeserializer(input.deserializer, plan.output),
      keys,
      plan
    )
    OperatorInput(child, InputRows(checked(keys), plan.output, ordered(df, order)))
  }

  /** The order that rows of a Dataset are sorted by: columns, or expressions over one row, ascending
    * with nulls first unless they say otherwise.
    */
  private def ordered(df: ClassicDataset[_], by: Seq[Column]): Seq[SortOrder] =
    if (by.isEmpty) Nil
    else
      df.sort(by: _*).queryExecution.analyzed match {
        case sort: Sort
            if sort.child.sameResult(df.queryExecution.analyzed) &&
              sort.order.forall(_.deterministic) =>
          sort.order
        case _ => throw KeystateErrors.orderNotOfARow(by.mkString(", "))
      }

  private def checked(keys: Seq[NamedExpression]): Seq[Attribute] = {
    for ((name, of) <- keys.groupBy(_.name) if of.size > 1)
      throw KeystateErrors.declaration(
        s"${of.size} key columns are called '$name': give all but one another name, by an alias."
      )
    keys.map(checked)
  }

  private def checked(key: NamedExpression): Attribute = {
    if (!key.deterministic) throw KeystateErrors.keyChangesItself(key.name)
    // Keys are compared by their bytes, but a collation may hold different bytes equal.
    val comparable = RowOrdering.isOrderable(key.dataType) && isBinaryStable(key.dataType)
    if (!comparable)
      throw KeystateErrors.keyType(key.name, key.dataType.sql)
    key.toAttribute
  }
}
