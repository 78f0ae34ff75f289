package org.apache.spark.sql.keystate.jvm.testing

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.plans.logical.{
  EventTimeWatermark,
  LocalRelation,
  LogicalPlan,
  Sort
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSparkSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.{Dataset, SparkSession}

import keystate.TypeInformation
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.plan.KeyedProcess

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

  /** Elements as the rows that an operator reads.
    *
    * @param timestamp
    *   their event time, in ms; None: what is in their column
    */
  private[testing] def rows(
      process: KeyedProcess,
      elements: Seq[IN],
      timestamp: Option[Long]
  ): Seq[InternalRow] = if (elements.isEmpty) Nil
  else {
    val timed = timestamp.map(time => withTime(process.left, time))
    val rows = elements.map { element =>
      val row = toRow(element).copy()
      timed.fold(row)(_(row))
    }
    // The delay of a watermark is of no interest: a test moves the watermark itself.
    val filled = process.left.transformUp {
      case watermark: EventTimeWatermark => watermark.child
      case relation: LocalRelation if relation.output == leaf.output =>
        LocalRelation(relation.output, rows)
    }
    val order = process.rows.order
    (filled, order) match {
      case (_: LocalRelation, Nil) =>
        rows // without a job of Spark, which takes longer than the rest
      case (plan, Nil) => evaluated(plan)
      case (plan, order) => evaluated(Sort(order, global = true, plan))
    }
  }

  private def evaluated(plan: LogicalPlan): Seq[InternalRow] =
    ClassicDataset.ofRows(session, plan).queryExecution.toRdd.map(_.copy()).collect().toSeq

  private def withTime(plan: LogicalPlan, ms: Long): InternalRow => InternalRow = {
    val index = plan
      .collectFirst { case watermark: EventTimeWatermark => watermark.eventTime }
      .map(column => leaf.output.indexWhere(_.exprId == column.exprId))
      .filter(_ >= 0)
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
