package org.apache.spark.sql.keystate.plan

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession}
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, Row}

import keystate.backend.StateFamily
import org.apache.spark.sql.keystate.expression.{AggregateColumn, AggregateEvaluation}
import org.apache.spark.sql.keystate.spec.{AggregateRecord, SchemaEvolution, StateSpec}

/** The aggregates that a checkpoint has, analysed again by what it records of them. */
private[keystate] object StoredAggregates {

  /** None for states of functions, and if the session can't compute them: it lacks a function that
    * is in them, or Spark keeps the buffers of one in another form by now.
    */
  def of(family: StateFamily, keySchema: StructType): Option[AggregateEvaluation] = for {
    state <- Option.when(StateSpec.hasAggregates(family))(StateSpec.of(family))
    record <- state.aggregates
    session <- SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession)
    found <-
      try Some(analysed(record, keySchema, session))
      catch { case NonFatal(_) => None }
    if SchemaEvolution.same(AggregateColumn.stateType(found.columns), state.valueType)
  } yield found

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
