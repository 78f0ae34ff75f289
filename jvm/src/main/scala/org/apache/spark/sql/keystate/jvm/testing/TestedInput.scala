package org.apache.spark.sql.keystate.jvm.testing

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Alias, Expression, GenericInternalRow, NamedExpression, SortOrder
}
import org.apache.spark.sql.catalyst.plans.logical.{
  EventTimeWatermark, LocalRelation, LogicalPlan, Project, Sort
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSparkSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.{Dataset, SparkSession}

import keystate.TypeInformation
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.ObjectCodec

/** The elements that a test gives, as a stream that functions are applied to. */
final class TestedInput[IN](elements: TypeInformation[IN]) {
  private val session = SparkSession.getActiveSession
    .orElse(SparkSession.getDefaultSession)
    .getOrElse(TestedInput.newSession())
    .asInstanceOf[ClassicSparkSession]
  private val encoder = ObjectCodec.expression(elements.encoder)
  private val leaf =
    LocalRelation(DataTypeUtils.toAttributes(encoder.schema), Nil, isStreaming = true)
  private val toRow = encoder.createSerializer()

  def conf: SQLConf = session.sessionState.conf

  /** Stands for the stream of a query. */
  val stream: Dataset[IN] = ClassicDataset(session, leaf)(elements.encoder)

  /** Whether this is the stream at a leaf of a plan. */
  private[testing] def is(plan: LogicalPlan): Boolean = plan match {
    case relation: LocalRelation => relation.output == leaf.output
    case _ => false
  }

  /** Elements as rows of the stream.
    *
    * @param timestamp
    *   their event time, in ms; None: the value of their column
    * @param plans
    *   one of them shows which column has the event time
    */
  private[testing] def rows(
      elements: Seq[IN],
      timestamp: Option[Long],
      plans: Seq[LogicalPlan]
  ): Seq[InternalRow] = {
    val timed = timestamp.filter(_ => elements.nonEmpty).map(withTime(plans, _))
    elements.map { element =>
      val row = toRow(element).copy()
      timed.fold(row)(_(row))
    }
  }

  /** The rows that a plan computes from the rows of streams.
    *
    * @param order
    *   their sort order
    * @param fed
    *   the rows of each stream
    */
  private[testing] def evaluated(
      plan: LogicalPlan,
      order: Seq[SortOrder],
      fed: Seq[(TestedInput[_], Seq[InternalRow])]
  ): Seq[InternalRow] = {
    val streams = plan.collectLeaves().flatMap(leaf => fed.find(_._1.is(leaf)))
    if (streams.nonEmpty && streams.forall(_._2.isEmpty)) Nil
    else rowsOf(plan, order, streams)
  }

  private def rowsOf(
      plan: LogicalPlan,
      order: Seq[SortOrder],
      fed: Seq[(TestedInput[_], Seq[InternalRow])]
  ): Seq[InternalRow] = {
    // The delay of a watermark is of no interest: a test moves the watermark itself.
    val filled = plan.transformUp {
      case watermark: EventTimeWatermark => watermark.child
      case relation: LocalRelation =>
        fed.find(_._1.is(relation)).fold(relation) { case (_, rows) =>
          LocalRelation(relation.output, rows)
        }
    }
    (withoutRenames(filled), order) match {
      case (local: LocalRelation, Nil) =>
        local.data // without a Spark job, which takes longer than the rest
      case (_, Nil) => collected(filled)
      case _ => collected(Sort(order, global = true, filled))
    }
  }

  /** A plan of the same rows. */
  @tailrec
  private def withoutRenames(plan: LogicalPlan): LogicalPlan = plan match {
    case Project(columns, child) if columns.map(renamed) == child.output => withoutRenames(child)
    case other => other
  }

  private def renamed(column: NamedExpression): Expression = column match {
    case alias: Alias => alias.child
    case other => other
  }

  /** The rows of a plan without streams. */
  private[testing] def collected(plan: LogicalPlan): Seq[InternalRow] =
    ClassicDataset.ofRows(session, plan).queryExecution.toRdd.map(_.copy()).collect().toSeq

  private def withTime(plans: Seq[LogicalPlan], ms: Long): InternalRow => InternalRow = {
    val index = plans
      .flatMap(_.collect { case watermark: EventTimeWatermark => watermark.eventTime })
      .map(column => leaf.output.indexWhere(_.exprId == column.exprId))
      .find(_ >= 0)
      .getOrElse(
        throw KeystateErrors.declaration(
          "A timestamp needs a watermark on a column of the elements; give it in the element."
        )
      )
    row => {
      val values = leaf.output.indices.map(i => row.get(i, leaf.output(i).dataType)).toArray[Any]
      values(index) = ms * 1000
      new GenericInternalRow(values)
    }
  }
}

private object TestedInput {

  /** A session of one core, for tests that have none. */
  def newSession(): SparkSession = SparkSession
    .builder()
    .master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.extensions", "org.apache.spark.sql.keystate.KeystateExtension")
    .getOrCreate()
}
