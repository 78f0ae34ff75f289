package org.apache.spark.sql.keystate.jvm

import scala.util.control.NonFatal

import org.apache.spark.sql.{Column, Dataset, Row}
import org.apache.spark.sql.catalyst.analysis.Analyzer
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, SortOrder}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.StaticSQLConf

import keystate.{OutputTag, RichFunction, TypeInformation}
import keystate.errors.KeystateErrors
import keystate.settings.Settings
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.plan.{
  BroadcastProcess,
  KeyedInput,
  KeyedProcess,
  TwoInputProcess
}
import org.apache.spark.sql.keystate.spec.StateKind
import org.apache.spark.sql.keystate.store.RealTimeSession

/** What the Scala API calls. */
object ScalaBridge {

  /** Applies a function to a Dataset.
    *
    * @param keyType
    *   None if the function does not ask for the key
    * @param broadcast
    *   None if the function takes no broadcast elements
    * @param initial
    *   a batch Dataset, whose elements the function is given before all others; None if it begins
    *   without state
    * @param order
    *   what the rows of a key are sorted by; none if in no order
    * @param late
    *   the side output of late rows, if there is to be one
    * @param eventTime
    *   the column that has the event time; None if that is told by the watermark
    */
  def process[T, OUT](
      data: Dataset[T],
      by: KeyBy[T],
      function: RichFunction,
      keyType: Option[TypeInformation[_]],
      broadcast: Option[BroadcastData],
      initial: Option[KeyedData[_]],
      outputType: TypeInformation[OUT],
      name: Option[String],
      maxParallelism: Option[Int],
      timeMode: String,
      order: Seq[Column],
      late: Option[OutputTag[_]],
      eventTime: Option[String]
  ): Dataset[OUT] = {
    val rows = prepared(KeyedData(data, by, order))
    val initialRows = initial.map(prepared(_))
    val declared = new DeclaredFunction(function, name)
    val declaredBroadcast = broadcast.map(declare(_, rows))
    if (declared.checkpointed && broadcast.nonEmpty)
      throw KeystateErrors.declaration(
        "A function of broadcast elements can't have operator state: keep it in broadcast state."
      )
    val broadcastStates = declaredBroadcast.toSeq.flatMap(_.states).map(_.spec)
    val spec = declared.operator(maxParallelism, timeMode, rows.input.keys, broadcastStates)
    // The initial state may have a null in its key where the rows have none.
    val keys = rows.input.keys.map(key => key.withNullability(key.nullable || initial.nonEmpty))
    val outputs = Outputs(ObjectCodec.expression(outputType.encoder))
    late.foreach(SideOutputs.checkLate(_, rows.input))
    val plan = KeyedProcess(
      new JvmFunction(
        declared.serialized,
        rows.encoder +: initialRows.map(_.encoder).toSeq,
        keyEncoder(keyType.getOrElse(TypeInformation.row), keys, rows.analyzer),
        outputs,
        declared.states,
        declared.operatorStates,
        declaredBroadcast,
        Seq(late.map(_.id))
      ),
      rows.input.keys,
      eventTime.fold(rows.input.columns)(rows.input.timedBy(_)),
      rows.input.output(outputs.schema),
      spec,
      rows.order,
      rows.input.child
    )
    val whole = broadcast
      .map(inputs => BroadcastProcess.connect(plan, classic(inputs.data).queryExecution.analyzed))
      .orElse(initialRows.map { state =>
        TwoInputProcess.initialized(plan, state.input, state.order)
      })
    ClassicDataset(rows.df.sparkSession, whole.getOrElse(plan))(outputType.encoder)
  }

  /** Applies a function to two Datasets with the same keys.
    *
    * @param merged
    *   whether the rows of both come by the first column in their orders
    * @param late
    *   for each input the side output of its late rows, if there is to be one
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
      timeMode: String,
      late: Seq[Option[OutputTag[_]]]
  ): Dataset[OUT] = {
    val (one, two) = (prepared(first), prepared(second))
    val declared = new DeclaredFunction(function, name)
    val spec = declared.operator(maxParallelism, timeMode, one.input.keys)
    val outputs = Outputs(ObjectCodec.expression(outputType.encoder))
    late.zip(Seq(one.input, two.input)).foreach { case (tag, input) =>
      tag.foreach(SideOutputs.checkLate(_, input))
    }
    // Either input may have a null in its key.
    val keys = one.input.keys.map(_.withNullability(true))
    val plan = TwoInputProcess.connect(
      new JvmFunction(
        declared.serialized,
        Seq(one.encoder, two.encoder),
        keyEncoder(keyType, keys, one.analyzer),
        outputs,
        declared.states,
        declared.operatorStates,
        None,
        late.map(_.map(_.id))
      ),
      one.input,
      two.input,
      (one.order, two.order),
      merged,
      outputs.schema,
      spec
    )
    ClassicDataset(one.df.sparkSession, plan)(outputType.encoder)
  }

  /** An input of an operator. */
  private final case class Rows(
      df: ClassicDataset[_],
      input: KeyedInput,
      order: Seq[SortOrder]
  ) {
    def analyzer: Analyzer = df.sparkSession.sessionState.analyzer

    /** The encoder of the Dataset's elements, bound to the columns that the function sees. */
    def encoder: ExpressionEncoder[Any] =
      df.exprEnc.asInstanceOf[ExpressionEncoder[Any]].resolveAndBind(input.columns, analyzer)
  }

  /** A Dataset as an operator reads it, in a session that was checked and prepared for one. */
  private def prepared[T](rows: KeyedData[T]): Rows = {
    val df = classic(rows.data)
    checkExtension(df)
    RealTimeSession.prepare(df.sparkSession)
    Rows(df, inputOf(df, rows.by), KeyedInput.order(df, rows.order))
  }

  private def inputOf[T](df: ClassicDataset[T], by: KeyBy[T]): KeyedInput = by match {
    case KeyBy.Columns(columns) => KeyedInput.byColumns(df, columns)
    case KeyBy.Function(f, encoder) =>
      KeyedInput.byFunction(df, f, ObjectCodec.expression(encoder))
  }

  private[jvm] def classic[T](data: Dataset[T]): ClassicDataset[T] = data match {
    case classic: ClassicDataset[T] => classic
    case _ =>
      throw KeystateErrors.declaration("Keystate needs a classic session, not Spark Connect.")
  }

  private def declare(inputs: BroadcastData, rows: Rows): DeclaredBroadcast = {
    if (inputs.descriptors.isEmpty)
      throw KeystateErrors.declaration("broadcast needs at least one MapStateDescriptor.")
    if (inputs.data.isStreaming && !rows.df.isStreaming)
      throw KeystateErrors.declaration(
        "A stream can't be broadcast to a batch Dataset: its rows would be processed once for " +
          "ever. Make both of them streams, or both batch Datasets."
      )
    val states = inputs.descriptors.map { descriptor =>
      if (descriptor.getTtlConfig.isEnabled)
        throw KeystateErrors.cannotExpire(descriptor.name, "broadcast state")
      DeclaredState(
        "broadcast",
        StateKind.Map,
        descriptor,
        descriptor.valueType,
        Some(descriptor.keyType),
        isBroadcast = true
      )
    }
    val right = classic(inputs.data)
    val encoder = right.exprEnc.asInstanceOf[ExpressionEncoder[Any]]
    DeclaredBroadcast(
      encoder.resolveAndBind(right.queryExecution.analyzed.output, rows.analyzer),
      states
    )
  }

  private def checkExtension(df: ClassicDataset[_]): Unit = {
    val extension = Settings.ExtensionClass
    val loaded = df.sparkSession.sessionState.conf.getConf(StaticSQLConf.SPARK_SESSION_EXTENSIONS)
    if (!loaded.exists(_.contains(extension))) throw KeystateErrors.extensionMissing(extension)
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
