package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.sql.catalyst.InternalRow

/** Writes a task's messages into vectors. */
private[keystate] trait MessageSender {

  /** Writes the next message. False if there is nothing left to send. */
  def fill(input: Iterator[InternalRow]): Boolean

  /** Empties the vectors for the next message. */
  def reset(): Unit
}
