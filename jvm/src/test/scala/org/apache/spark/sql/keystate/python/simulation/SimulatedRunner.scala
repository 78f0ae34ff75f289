package org.apache.spark.sql.keystate.python.simulation

import org.apache.spark.api.python.SimplePythonFunction
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

import org.apache.spark.sql.keystate.operator.OperatorTaskContext
import org.apache.spark.sql.keystate.python.{Conversation, PythonRunner}

/** The runner of Python functions, with a simulated channel to the worker. */
private[simulation] final class SimulatedRunner(conf: SQLConf, channel: Channel)
    extends PythonRunner(SimulatedRunner.Unread, conf, Map.empty) {

  override protected def answers(
      schema: StructType,
      conversation: Conversation,
      input: Iterator[InternalRow],
      context: OperatorTaskContext
  ): Iterator[ColumnarBatch] = channel.converse(schema, conversation, input)
}

private object SimulatedRunner {

  /** A function that Spark would send. */
  private val Unread = PythonUDF(
    "simulated",
    SimplePythonFunction(Seq.empty[Byte], null, null, "", "", null, null),
    new StructType,
    Nil,
    0,
    udfDeterministic = true
  )
}
