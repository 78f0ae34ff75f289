package org.apache.spark.sql.keystate.operator

import java.util.{Set => JSet, UUID}

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StateStoreWriter, StatefulOperator, StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

import org.apache.spark.sql.keystate.metadata.{CheckpointOperators, OperatorChanges}
import org.apache.spark.sql.keystate.metrics.Recent

/** Checks at a query's start that its stateful operators are those of its checkpoint.
  *
  * Relies on `IncrementalExecution`, which numbers the operators from the top of the plan down and
  * makes its own check, without users' names, after that. It gives each operator its number before,
  * and by then the query's `lastExecution` has the whole plan.
  */
private[keystate] object QueryOperators {
  private val Kept = 100

  private val checked: JSet[UUID] = Recent.set(Kept)

  private val recorded: JSet[UUID] = Recent.set(Kept)

  /** Writes into the checkpoint which stateful operators a query has, Spark's own too; once in a run.
    */
  def record(operators: Seq[StatefulOperator], session: SparkSession): Unit =
    for {
      first <- operators.headOption
      info <- first.stateInfo if info.checkpointLocation.nonEmpty
      if session.sharedState.activeStreamingQueries.values.toArray.exists {
        case query: StreamExecution => query.runId == info.queryRunId
        case _ => false
      }
      if recorded.add(info.queryRunId)
    } new CheckpointOperators(
      session.sessionState.newHadoopConf(),
      new Path(info.checkpointLocation).getParent
    ).write(numbers(operators), numbers(operators.collect { case own: KeyedProcessExec => own }))

  private def numbers(of: Seq[StatefulOperator]): Seq[Long] =
    of.flatMap(_.stateInfo).map(_.operatorId).distinct.sorted

  /** Checks only the first micro-batch of a run. A plan that is only explained has no query. */
  def check(info: StatefulOperatorStateInfo, session: SparkSession): Unit =
    if (info.storeVersion == 0) checked.add(info.queryRunId): Unit // nothing to compare with
    else if (!checked.contains(info.queryRunId))
      for {
        query <- session.sharedState.activeStreamingQueries.values.toArray.collectFirst {
          case query: StreamExecution if query.runId == info.queryRunId => query
        }
        execution <- Option(query.lastExecution)
      } {
        val planned = execution.sparkPlan.collect { case writer: StateStoreWriter =>
          writer match {
            case own: KeyedProcessExec => OperatorChanges.Operator(None, own.spec.name)
            case other => OperatorChanges.Operator(Some(other.shortName), None)
          }
        }
        val root = new Path(info.checkpointLocation).getParent
        val known = new CheckpointOperators(session.sessionState.newHadoopConf(), root)
        val operators = known.all.map { operator =>
          known.record(operator) match {
            case Some(record) => OperatorChanges.Operator(None, record.name)
            case None => OperatorChanges.Operator(Some("one of Spark's"), None)
          }
        }
        OperatorChanges.check(root.toString, planned, operators)
        checked.add(info.queryRunId)
        // They are the same, so nothing is to be recorded.
        recorded.add(info.queryRunId): Unit
      }
}
