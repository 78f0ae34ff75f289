package org.apache.spark.sql.keystate.python

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, Cast, Coalesce, Divide, EqualTo, Expression, GetStructField, If, Literal,
  UnsafeProjection
}
import org.apache.spark.sql.types.{DoubleType, TimestampType}

import org.apache.spark.sql.keystate.operator.OperatorColumns
import org.apache.spark.sql.keystate.spec.JvmWindowFiringSpec.{Made, Result}
import org.apache.spark.sql.keystate.spec.{JvmWindowFiringSpec, StateSpec}

/** The results of windows, made of what these hold. */
private object WindowResults {

  /** Makes a row of the operator's output of a row with a key's columns, the window's start and end,
    * and what it holds. None if the output has other types.
    */
  def of(
      windows: JvmWindowFiringSpec,
      state: StateSpec,
      columns: OperatorColumns
  ): Option[UnsafeProjection] = {
    val told = columns.grouping.map(_.dataType) ++ Seq(TimestampType, TimestampType)
    val read = (told ++ state.rowSchema.map(_.dataType)).zipWithIndex.map { case (of, i) =>
      BoundReference(i, of, nullable = true)
    }
    val (ofWindow, held) = read.splitAt(told.size)
    val made = ofWindow ++ windows.results.map(result(_, state, held))
    Option
      .when(made.map(_.dataType) == columns.output.map(_.dataType))(UnsafeProjection.create(made))
  }

  private def result(result: Result, state: StateSpec, held: Seq[Expression]): Expression = {
    val field = held(state.rowSchema.fieldIndex(result.field))
    result.made match {
      case Made.Value => field
      case Made.Count => orZero(field, 0L)
      case Made.Mean =>
        val sum = orZero(GetStructField(field, 0), 0.0)
        val count = orZero(GetStructField(field, 1), 0L)
        val mean = Divide(sum, Cast(count, DoubleType))
        If(EqualTo(count, Literal(0L)), Literal(null, DoubleType), mean)
    }
  }

  private def orZero(value: Expression, zero: Any) = Coalesce(Seq(value, Literal(zero)))
}
