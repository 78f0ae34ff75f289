package org.apache.spark.sql.keystate.metadata

import java.util.{Map => JMap, UUID}

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo

import org.apache.spark.sql.keystate.metrics.Recent

/** The number of undeclared states that each operator of this driver's queries keeps, for the
  * progress. It is counted at a query's start. Thread-safe.
  */
private[keystate] object UndeclaredStates {
  private val Kept = 1000

  private val numbers: JMap[(UUID, Long), Int] = Recent.map(Kept)

  def put(info: StatefulOperatorStateInfo, states: Int): Unit =
    if (states > 0) numbers.put((info.queryRunId, info.operatorId), states): Unit

  def get(info: StatefulOperatorStateInfo): Int =
    numbers.getOrDefault((info.queryRunId, info.operatorId), 0)
}
