package org.apache.spark.sql.keystate.plan

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession}
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, Row}

import org.apache.spark.sql.keystate.expression.{AggregateColumn, AggregateEvaluation}
import org.apache.spark.sql.keystate.spec.{AggregateRecord, SchemaEvolution, StateSpec}

/** The aggregates that a checkpoint has, analysed again by what it records of them. */
private[keystate] object StoredAggregates {

  /** None if this session can't compute them: it lacks a function that is in them, or Spark keeps the
    * buffers of one in another form by now.
    */
  def of(
      state: StateSpec,
      keySchema: StructType,
      session: SparkSession
  ): Option[AggregateEvaluation] = state.aggregates.flatMap { record =>
    try
      Some(analysed(record, keySchema, session)).filter { found =>
        SchemaEvolution.same(AggregateColumn.stateType(found.columns), state.valueType)
      }
    catch { case NonFatal(_) => None }
  }

  private def analysed(
      record: AggregateRecord,
      keySchema: StructType,
      session: SparkSession
  ): AggregateEvaluation = {
    val rows = session
      .createDataFrame(java.util.Collections.emptyList[Row], record.input)
      .asInstanceOf[ClassicDataset[Row]]
    val keys = keySchema.fieldNames.toSeq.map(name => col(quoteIfNeeded(name)))
    val aggregates: Seq[Column] = record.texts.map { case (name, text) => expr(text).as(name) }
    AggregatePlan.evaluation(rows, keys, aggregates, record)
  }
}
