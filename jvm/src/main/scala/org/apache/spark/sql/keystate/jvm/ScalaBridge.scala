package org.apache.spark.sql.keystate.jvm

import java.io.NotSerializableException

import scala.util.control.NonFatal

import org.apache.spark.sql.{Column, Dataset, Row}
import org.apache.spark.sql.catalyst.analysis.Analyzer
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.StaticSQLConf

import keystate.{CheckpointListener, CheckpointedFunction, RichFunction, TypeInformation}
import keystate.errors.{KeystateErrors, KeystateException}
import keystate.settings.Settings
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.plan.{
  BroadcastProcess,
  KeyedInput,
  KeyedProcess,
  TwoInputProcess
}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, StateKind, StateSpec}
import org.apache.spark.sql.keystate.store.RealTimeSession

/** What the Scala API calls. */
object ScalaBridge {
  private val timeModes = Set("auto", "event_time", "processing_time", "none")

  /** Applies a function to a Dataset.
    *
    * @param keyType
    *   None if the function does not ask for the key
    * @param broadcast
    *   None if the function takes no broadcast elements
    * @param order
    *   what the rows of a key are sorted by; none if in no order
    */
  def process[T, OUT](
      data: Dataset[T],
      by: KeyBy[T],
      function: RichFunction,
      keyType: Option[TypeInformation[_]],
      broadcast: Option[BroadcastData],
      outputType: TypeInformation[OUT],
      name: Option[String],
      maxParallelism: Option[Int],
      timeMode: String,
      order: Seq[Column]
  ): Dataset[OUT] = {
    val df = classic(data)
    checkExtension(df)
    RealTimeSession.prepare(df.sparkSession)
    checkTimeMode(timeMode)
    val input = inputOf(df, by)
    val serialized = serialize(function)
    val calls = FunctionCalls(function)
    val (states, operatorStates) = discover(serialized, name)
    val analyzer = df.sparkSession.sessionState.analyzer
    val declaredBroadcast = broadcast.map(declare(_, df, analyzer))
    val broadcastStates = declaredBroadcast.toSeq.flatMap(_.states).map(_.spec)
    val checkpointed = isCheckpointed(calls)
    if (checkpointed && broadcast.nonEmpty)
      throw KeystateErrors.declaration(
        "A function of broadcast elements can't have operator state: keep it in broadcast state."
      )
    checkStates(
      states.map(_.spec),
      operatorStates.map(_.state.spec) ++ broadcastStates,
      input.keys
    )
    val output = ObjectCodec.expression(outputType.encoder)
    val spec = OperatorSpec(
      name,
      maxParallelism,
      timeMode,
      calls.hasTimers,
      states.map(_.spec),
      broadcast = broadcastStates,
      checkpointed = checkpointed,
      operatorStates = operatorStates.map(_.state.spec)
    )
    val plan = KeyedProcess(
      new JvmFunction(
        serialized,
        Seq(bound(df, input, analyzer)),
        keyEncoder(keyType.getOrElse(TypeInformation.row), input.keys, analyzer),
        output,
        states,
        operatorStates,
        declaredBroadcast
      ),
      input.keys,
      input.columns,
      input.output(output.schema),
      spec,
      KeyedInput.order(df, order),
      input.child
    )
    val connected = broadcast.fold[LogicalPlan](plan) { inputs =>
      BroadcastProcess.connect(plan, classic(inputs.data).queryExecution.analyzed)
    }
    ClassicDataset(df.sparkSession, connected)(outputType.encoder)
  }

  /** Applies a function to two Datasets with the same keys.
    *
    * @param merged
    *   whether the rows of both come by the first column in their orders
    */
  def processTwo[A, B, OUT](
      first: KeyedData[A],
      second: KeyedData[B],
      merged: Boolean,
      function: RichFunction,
      keyType: TypeInformation[_],
      outputType: TypeInformation[OUT],
      name: Option[String],
      maxParallelism: Option[Int],
      timeMode: String
  ): Dataset[OUT] = {
    val (one, two) = (classic(first.data), classic(second.data))
    checkExtension(one)
    RealTimeSession.prepare(one.sparkSession)
    checkTimeMode(timeMode)
    val inputs = (inputOf(one, first.by), inputOf(two, second.by))
    val serialized = serialize(function)
    val calls = FunctionCalls(function)
    val (states, operatorStates) = discover(serialized, name)
    checkStates(states.map(_.spec), operatorStates.map(_.state.spec), inputs._1.keys)
    val analyzer = one.sparkSession.sessionState.analyzer
    val output = ObjectCodec.expression(outputType.encoder)
    // Either input may have a null in its key.
    val keys = inputs._1.keys.map(_.withNullability(true))
    val plan = TwoInputProcess.connect(
      new JvmFunction(
        serialized,
        Seq(bound(one, inputs._1, analyzer), bound(two, inputs._2, analyzer)),
        keyEncoder(keyType, keys, analyzer),
        output,
        states,
        operatorStates,
        None
      ),
      inputs._1,
      inputs._2,
      (KeyedInput.order(one, first.order), KeyedInput.order(two, second.order)),
      merged,
      output.schema,
      OperatorSpec(
        name,
        maxParallelism,
        timeMode,
        calls.hasTimers,
        states.map(_.spec),
        checkpointed = isCheckpointed(calls),
        operatorStates = operatorStates.map(_.state.spec)
      )
    )
    ClassicDataset(one.sparkSession, plan)(outputType.encoder)
  }

  private def checkTimeMode(timeMode: String): Unit =
    if (!timeModes(timeMode))
      throw KeystateErrors.declaration(
        s"The time mode must be one of ${timeModes.mkString(", ")}, not $timeMode."
      )

  private def inputOf[T](df: ClassicDataset[T], by: KeyBy[T]): KeyedInput = by match {
    case KeyBy.Columns(columns) => KeyedInput.byColumns(df, columns)
    case KeyBy.Function(f, encoder) =>
      KeyedInput.byFunction(df, f, ObjectCodec.expression(encoder))
  }

  /** The encoder of a Dataset's elements, bound to the columns that the function sees. */
  private def bound(df: ClassicDataset[_], input: KeyedInput, analyzer: Analyzer) =
    df.exprEnc.asInstanceOf[ExpressionEncoder[Any]].resolveAndBind(input.columns, analyzer)

  private def serialize(function: RichFunction): Array[Byte] =
    try JvmFunction.serialize(function)
    catch {
      case e: NotSerializableException =>
        throw KeystateErrors.declaration(
          s"The function can't be sent to executors: ${e.getMessage} is not serializable. Mark " +
            "what open makes as @transient.",
          e
        )
    }

  private def isCheckpointed(calls: FunctionCalls): Boolean = calls.user match {
    case _: CheckpointedFunction | _: CheckpointListener => true
    case _ => false
  }

  private def classic[T](data: Dataset[T]): ClassicDataset[T] = data match {
    case classic: ClassicDataset[T] => classic
    case _ =>
      throw KeystateErrors.declaration("Keystate needs a classic session, not Spark Connect.")
  }

  private def declare(
      inputs: BroadcastData,
      df: ClassicDataset[_],
      analyzer: Analyzer
  ): DeclaredBroadcast = {
    if (inputs.descriptors.isEmpty)
      throw KeystateErrors.declaration("broadcast needs at least one MapStateDescriptor.")
    if (inputs.data.isStreaming && !df.isStreaming)
      throw KeystateErrors.declaration(
        "A stream can't be broadcast to a batch Dataset: its rows would be processed once for " +
          "ever. Make both of them streams, or both batch Datasets."
      )
    val states = inputs.descriptors.map { descriptor =>
      if (descriptor.getTtlConfig.isEnabled)
        throw KeystateErrors.cannotExpire(descriptor.name, "broadcast state")
      DeclaredState(
        "broadcast",
        StateKind.Broadcast,
        descriptor,
        descriptor.valueType,
        Some(descriptor.keyType)
      )
    }
    val right = classic(inputs.data)
    val encoder = right.exprEnc.asInstanceOf[ExpressionEncoder[Any]]
    DeclaredBroadcast(
      encoder.resolveAndBind(right.queryExecution.analyzed.output, analyzer),
      states
    )
  }

  private def checkExtension(df: ClassicDataset[_]): Unit = {
    val extension = Settings.ExtensionClass
    val loaded = df.sparkSession.sessionState.conf.getConf(StaticSQLConf.SPARK_SESSION_EXTENSIONS)
    if (!loaded.exists(_.contains(extension))) throw KeystateErrors.extensionMissing(extension)
  }

  /** The states that a copy of the function asks for when it is opened on the driver. */
  private def discover(
      function: Array[Byte],
      name: Option[String]
  ): (Seq[DeclaredState], Seq[DeclaredList]) = {
    val context = new DiscoveryContext(name)
    val operatorStates = new OperatorStateDiscovery(context)
    val calls = FunctionCalls(JvmFunction.deserialize(function))
    val copy = calls.function
    copy.setRuntimeContext(context)
    try {
      calls.user match {
        case own: CheckpointedFunction =>
          onDriver("initializeState")(own.initializeState(operatorStates))
        case _ =>
      }
      onDriver("open")(copy.open(context))
    } catch {
      case e: Throwable =>
        try copy.close()
        catch { case NonFatal(suppressed) => e.addSuppressed(suppressed) }
        throw e
    }
    onDriver("close")(copy.close())
    (context.found.toSeq, operatorStates.found.toSeq)
  }

  private def onDriver(method: String)(call: => Unit): Unit =
    try call
    catch {
      case e: KeystateException => throw e
      case NonFatal(e) =>
        throw KeystateErrors.declaration(s"The function's $method failed on the driver: $e", e)
    }

  private def checkStates(
      keyed: Seq[StateSpec],
      others: Seq[StateSpec],
      keys: Seq[Attribute]
  ): Unit = {
    if (keys.isEmpty) keyed.foreach(state => throw KeystateErrors.stateWithoutKey(state.name))
    val names = (keyed ++ others).map(_.name)
    names.diff(names.distinct).foreach(name => throw KeystateErrors.twoStates(name))
  }

  /** The encoder of the key's type, bound to the key columns in their order. */
  private def keyEncoder(
      keyType: TypeInformation[_],
      keys: Seq[Attribute],
      analyzer: Analyzer
  ): ExpressionEncoder[Any] = {
    val encoder: ExpressionEncoder[Any] =
      if (keyType eq TypeInformation.row)
        ExpressionEncoder(DataTypeUtils.fromAttributes(keys))
          .asInstanceOf[ExpressionEncoder[Row]]
          .asInstanceOf[ExpressionEncoder[Any]]
      else ObjectCodec.expression(keyType.encoder)
    def mismatch(cause: Throwable) = KeystateErrors.declaration(
      s"The function's key is of type ${encoder.schema.catalogString}, which does not fit the key " +
        s"columns ${DataTypeUtils.fromAttributes(keys).catalogString}.",
      cause
    )
    if (encoder.schema.length != keys.length) throw mismatch(null)
    val named = keys.zip(encoder.schema).map { case (key, field) =>
      AttributeReference(field.name, key.dataType, key.nullable)()
    }
    try encoder.resolveAndBind(named, analyzer)
    catch {
      case NonFatal(e) => throw mismatch(e)
    }
  }
}
