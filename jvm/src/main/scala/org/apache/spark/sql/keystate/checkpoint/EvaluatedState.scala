package org.apache.spark.sql.keystate.checkpoint

import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types.StructType

import keystate.backend.{Change, StateFamily}
import org.apache.spark.sql.keystate.encoding.StateRows
import org.apache.spark.sql.keystate.expression.AggregateEvaluation
import org.apache.spark.sql.keystate.plan.StoredAggregates

/** The aggregates of a state that has their buffers: a state beside it, as one of a function. */
private[checkpoint] final class EvaluatedState private (
    stored: StoredState,
    evaluation: AggregateEvaluation,
    val state: StoredState
) {
  private val evaluate = evaluation.evaluator()
  private val row = UnsafeProjection.create(evaluation.schema)

  def entries(of: Vector[Change]): Vector[Change] = of.map { change =>
    val values = stored.codec.valueRow(change.value)
    val made = row(evaluate(stored.codec.groupingRow(change.key), values))
    change.copy(value = StateRows.encode(made))
  }
}

private[checkpoint] object EvaluatedState {

  /** The name that it is shown under. */
  val Name = "aggregates"

  /** None for other states, and where the aggregates can't be computed. */
  def of(stored: StoredState, family: StateFamily, keySchema: StructType): Option[EvaluatedState] =
    StoredAggregates.of(family, keySchema).map { evaluation =>
      val properties = family.properties - "aggregates" - "schemas" +
        ("valueType" -> evaluation.schema.asNullable.json)
      val shown = family.copy(name = Name, properties = properties)
      new EvaluatedState(stored, evaluation, new StoredState(shown, keySchema))
    }
}
