package org.apache.spark.sql.keystate.python

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.spec.Protocol
import org.apache.spark.sql.keystate.state.{OperatorStateEntries, RawKeyedState}

/** A worker's report of its subtask's operator state. */
private[keystate] object OperatorStateColumns {

  /** Stores the operator state, which only the last answer has. Returns whether this answer is the
    * last.
    */
  def receive(own: OperatorStateEntries, column: String => ArrowColumnVector): Boolean = {
    val state = column(Protocol.Answer.OperatorState)
    val last = !state.isNullAt(0)
    if (last)
      own.put(
        state.getBinary(0),
        new String(column(Protocol.Answer.OperatorTag).getBinary(0), UTF_8)
      )
    last
  }

  /** Stores the raw keyed streams of the same answer. */
  def receiveRaw(state: RawKeyedState, column: String => ArrowColumnVector): Unit = {
    val written = column(Protocol.Answer.RawGroups).getArray(0)
    val streams = column(Protocol.Answer.RawStreams).getArray(0)
    state.replace(
      (0 until written.numElements()).map(i => written.getInt(i) -> streams.getBinary(i)).toMap
    )
  }
}
