package org.apache.spark.sql.keystate.jvm

import java.nio.ByteBuffer

import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

import keystate.RichFunction
import org.apache.spark.sql.keystate.jvm.state.{JvmOperatorStateSpec, JvmStateSpec}
import org.apache.spark.sql.keystate.operator.{
  FunctionPass, FunctionRunner, OperatorFunction, OperatorTaskContext, TaskRows
}
import org.apache.spark.sql.keystate.state.DueTimers

/** A function in the JVM. It runs in the same operator as Python's functions, so either can go on
  * from the other's checkpoint.
  *
  * @param function
  *   the serialised [[RichFunction]]
  * @param inputs
  *   for each input, bound to the columns that the function sees of it
  * @param key
  *   bound to the key columns
  * @param operatorState
  *   its operator state
  * @param broadcast
  *   None if it takes no broadcast elements
  * @param late
  *   for each input the name of the side output that its late rows go to, if that is read
  * @param deadLetters
  *   None if an error of a row ends the query
  */
private[keystate] final class JvmFunction(
    function: Array[Byte],
    val inputs: Seq[ExpressionEncoder[Any]],
    val key: ExpressionEncoder[Any],
    val outputs: Outputs,
    val states: Seq[JvmStateSpec],
    val operatorState: JvmOperatorStateSpec,
    val broadcast: Option[JvmBroadcastSpec],
    val late: Seq[Option[String]],
    val deadLetters: Option[DeadLetterSpec]
) extends OperatorFunction
    with FunctionRunner {

  override def runner(conf: SQLConf, metrics: Map[String, SQLMetric]): FunctionRunner = this

  override def run(rows: TaskRows, due: DueTimers, context: OperatorTaskContext): FunctionPass = {
    var pass = Option.empty[OpenedFunction#Pass]
    var failed = false
    // These listeners run before the store is released, so no other attempt can have the instance
    // by then. If a result was not read to its end, the instance has seen rows that do not count.
    context.task.addTaskFailureListener { (_, _) =>
      failed = true
      context.subtask.close()
    }
    context.task.addTaskCompletionListener[Unit] { _ =>
      if (!failed && pass.exists(!_.hasEnded)) context.subtask.close()
    }
    val run = context.subtask
      .getOrOpen(new OpenedFunction(this, context))(_.goesOn(context))
      .run(rows, due, context)
    pass = Some(run)
    run
  }

  /** This function where side outputs are read too. */
  def reading(side: Seq[Outputs.Side]): JvmFunction = new JvmFunction(
    function,
    inputs,
    key,
    outputs.copy(side = Some(side)),
    states,
    operatorState,
    broadcast,
    late,
    deadLetters
  )

  def newInstance(): FunctionCalls = FunctionCalls(
    JvmFunction.deserialize(function).asInstanceOf[RichFunction]
  )
}

private[keystate] object JvmFunction {
  def serialize(function: AnyRef): Array[Byte] = {
    val buffer = SparkEnv.get.closureSerializer.newInstance().serialize(function)
    val bytes = new Array[Byte](buffer.remaining)
    buffer.get(bytes)
    bytes
  }

  def deserialize(function: Array[Byte]): AnyRef =
    SparkEnv.get.closureSerializer
      .newInstance()
      .deserialize(ByteBuffer.wrap(function), Utils.getContextOrSparkClassLoader)
}
