package org.apache.spark.sql.keystate.metadata

import java.util.{Map => JMap, UUID}

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.streaming.StateOperatorProgress

import org.apache.spark.sql.keystate.metrics.{OperatorReport, Recent}

/** Says in the progress how many undeclared states an operator keeps. */
private[keystate] final class UndeclaredStates(info: StatefulOperatorStateInfo)
    extends OperatorReport[Any, Nothing] {
  import UndeclaredStates._

  override protected def isNeeded(): Boolean = false

  override def metrics(progress: StateOperatorProgress): Map[String, Long] =
    Option(numbers.get((info.queryRunId, info.operatorId))).map(Undeclared -> _.toLong).toMap
}

/** The number of undeclared states that each operator of this driver's queries keeps. It is counted
  * at a query's start. Thread-safe.
  */
private object UndeclaredStates {
  private final val Undeclared = "keystateUndeclaredStates"
  private val Kept = 1000

  private val numbers: JMap[(UUID, Long), Integer] = Recent.map(Kept)

  def put(info: StatefulOperatorStateInfo, states: Int): Unit =
    if (states > 0) numbers.put((info.queryRunId, info.operatorId), states): Unit
}
