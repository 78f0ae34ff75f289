package org.apache.spark.sql.keystate.jvm

import java.time.Duration

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.analysis.Analyzer
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSparkSession}
import org.apache.spark.sql.internal.StaticSQLConf
import org.apache.spark.sql.{Column, DataFrame, Dataset, Row}

import keystate.config.Settings
import keystate.errors.{KeystateErrors, KeystateException}
import keystate.pattern.{AfterMatch, Pattern}
import keystate.{RichFunction, TypeInformation}
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.expression.{
  AsOfDirection, AsOfMatching, Between, FixedBounds, SessionBounds, Windows, Within
}
import org.apache.spark.sql.keystate.jvm.state.JvmStateSpec
import org.apache.spark.sql.keystate.operator.InputRole
import org.apache.spark.sql.keystate.plan.{
  AggregatePlan, AggregateSpec, AsOfPlan, AsOfSpec, JoinAllPlan, JoinAllSpec, KeyedProcess,
  MatchRecognizePlan, OperatorInput, PatternPlan, PatternSpec, SideOutput
}
import org.apache.spark.sql.keystate.realtime.RealTimeSession
import org.apache.spark.sql.keystate.spec.StateKind

/** The entry points for the Scala API. */
object ScalaBridge {

  /** Applies a function to one Dataset or two.
    *
    * @param keyType
    *   None if the function does not ask for the key
    */
  def process[OUT](
      data: KeyedData[_],
      second: Option[SecondInputData],
      function: RichFunction,
      keyType: Option[TypeInformation[_]],
      outputType: TypeInformation[OUT],
      settings: OperatorSettings
  ): Dataset[OUT] = {
    val first = prepared(data)
    val declared = new JvmFunctionSpec(function, settings.name)
    val broadcast = second.collect { case inputs: BroadcastData => declare(inputs, first) }
    if (declared.checkpointed && broadcast.nonEmpty)
      throw KeystateErrors.declaration(
        "A function of broadcast elements can't have operator state: keep it in broadcast state."
      )
    val other = second.map {
      case ConnectedData(input, true) => prepared(input) -> InputRole.Merged
      case ConnectedData(input, false) => prepared(input) -> InputRole.Connected
      case InitialData(input) => prepared(input.withoutLate) -> InputRole.Initial
      case BroadcastData(elements, _) => elementRows(elements) -> InputRole.Broadcast
    }
    val taken = first +: other.toSeq.collect {
      case (rows, role) if role != InputRole.Broadcast => rows
    }
    // A key column may be null in rows of one input if it is not null in the other.
    val keys = first.input.keys.map(key => key.withNullability(key.nullable || taken.size > 1))
    val deadLetters = settings.onError.map { policy =>
      declared.withoutDeadLetters.foreach { kind =>
        throw KeystateErrors.declaration(s"There are no dead letters of $kind: leave out onError.")
      }
      val own = if (second.exists(_.isInstanceOf[InitialData])) Seq(first) else taken
      DeadLetterSpec.of(policy, own.map(_.df.exprEnc), own.map(_.input.columns))
    }
    val outputs = Outputs(ObjectCodec.expression(outputType.encoder))
    val spec = declared.operator(
      settings.maxParallelism,
      settings.timeMode,
      first.input.keys,
      broadcast.toSeq.flatMap(_.states).map(_.spec)
    )
    val plan = KeyedProcess.of(
      new JvmFunction(
        declared.serialized,
        taken.map(_.encoder),
        keyEncoder(keyType.getOrElse(TypeInformation.row), keys, first.analyzer),
        outputs,
        declared.states,
        declared.operatorState,
        broadcast,
        taken.map(_.late),
        deadLetters
      ),
      data.eventTime.fold(first.input)(first.input.timedBy),
      other.map { case (rows, role) => rows.input -> role },
      outputs.schema,
      spec.copy(metrics = spec.metrics || deadLetters.nonEmpty)
    )
    ClassicDataset(first.df.sparkSession, plan)(outputType.encoder)
  }

  /** Aggregates of the elements of a key, or of its windows. */
  def aggregate(
      data: KeyedData[_],
      aggregates: Seq[Column],
      windows: Option[ColumnWindows],
      settings: OperatorSettings
  ): DataFrame = {
    val rows = prepared(data)
    windows.flatMap(_.late).foreach(SideOutputs.checkLate(_, rows.input.columns))
    val keys = data.by match {
      case KeyBy.Columns(columns) => columns
      case KeyBy.Function(_, _) => Nil
    }
    val spec = AggregateSpec(
      settings.name,
      settings.maxParallelism,
      windows.map { own =>
        val bounds = own.bounds match {
          case Left(gap) => SessionBounds(gap)
          case Right((size, slide, offset)) => FixedBounds(size, slide, offset)
        }
        Windows(bounds, own.byEventTime, own.lateness)
      },
      data.eventTime,
      windows.flatMap(_.late).map(tag => SideOutput(tag.id, isRead = false))
    )
    val plan = AggregatePlan.of(rows.df, rows.input, keys, aggregates, spec)
    ClassicDataset.ofRows(rows.df.sparkSession, plan)
  }

  /** Joins the elements of one Dataset with those that another had at their times. */
  def joinAsOf(
      left: KeyedData[_],
      right: KeyedData[_],
      join: AsOfSettings,
      settings: OperatorSettings
  ): DataFrame = {
    val (rows, others) = (prepared(left), prepared(right))
    val direction = AsOfDirection.all.find(_.name == join.direction).getOrElse {
      throw KeystateErrors.declaration(
        s"The direction must be one of ${AsOfDirection.all.mkString(", ")}, not ${join.direction}."
      )
    }
    val spec = AsOfSpec(
      settings.name,
      settings.maxParallelism,
      join.leftOn,
      join.rightOn,
      AsOfMatching(direction, join.tolerance.map(_.toNanos / 1000), join.exact),
      join.suffix,
      join.inner,
      join.waits,
      join.deleted,
      rows.late.map(SideOutput(_, isRead = false))
    )
    ClassicDataset.ofRows(rows.df.sparkSession, AsOfPlan.of(rows.input, others.input, spec))
  }

  /** Joins the elements of a key of many Datasets. */
  def joinAll(
      inputs: Seq[KeyedData[_]],
      join: JoinAllSettings,
      settings: OperatorSettings
  ): DataFrame = {
    val rows = inputs.map(prepared(_))
    val spec = JoinAllSpec(
      settings.name,
      settings.maxParallelism,
      join.on,
      join.bounds match {
        case Left(within) => Within(within.toNanos / 1000, join.outer)
        case Right((lower, upper)) => Between(lower, upper, join.outer)
      },
      join.suffixes,
      join.earliest,
      join.late.map(tag => SideOutput(tag.id, isRead = false))
    )
    val plan = JoinAllPlan.of(rows.map(_.input), spec)
    join.late.foreach(SideOutputs.checkLate(_, plan.output))
    ClassicDataset.ofRows(rows.head.df.sparkSession, plan)
  }

  /** The matches of a pattern.
    *
    * @param results
    *   the columns of a match; none for its rows
    */
  def pattern(
      data: KeyedData[_],
      parts: Seq[PatternPart],
      skips: (AfterMatch, Option[Duration]),
      results: Seq[Column],
      limits: PatternSettings,
      settings: OperatorSettings
  ): DataFrame = {
    val rows = prepared(data)
    val (numbered, conditions) = PatternPart.numbered(parts)
    val spec = PatternSpec(
      settings.name,
      settings.maxParallelism,
      Pattern(numbered, skips._2.map(_.toNanos / 1000)),
      skips._1,
      results.isEmpty,
      limits.mostMatches.getOrElse(PatternSpec.MostMatches),
      limits.drops,
      rows.late.map(SideOutput(_, isRead = false)),
      limits.timeouts.map(tag => SideOutput(tag.id, isRead = false))
    )
    val plan = PatternPlan.of(rows.df, rows.input, conditions, results, spec)
    ClassicDataset.ofRows(rows.df.sparkSession, plan)
  }

  /** What SQL's `MATCH_RECOGNIZE (...)` makes of a Dataset. */
  def matchRecognize(data: Dataset[_], text: String): DataFrame = {
    val df = classic(data)
    checkExtension(df.sparkSession)
    RealTimeSession.prepare(df.sparkSession)
    ClassicDataset.ofRows(df.sparkSession, MatchRecognizePlan.of(df, text, None))
  }

  /** An input of an operator.
    *
    * @param late
    *   the name of the side output of its late rows
    */
  private final case class Rows(df: ClassicDataset[_], input: OperatorInput, late: Option[String]) {
    def analyzer: Analyzer = df.sparkSession.sessionState.analyzer

    /** The encoder of the Dataset's elements, bound to the columns that the function sees. */
    def encoder: ExpressionEncoder[Any] =
      df.exprEnc.asInstanceOf[ExpressionEncoder[Any]].resolveAndBind(input.columns, analyzer)
  }

  /** A Dataset as an operator reads it, in a session that was checked and prepared for one. */
  private def prepared[T](data: KeyedData[T]): Rows = {
    val df = classic(data.data)
    checkExtension(df.sparkSession)
    RealTimeSession.prepare(df.sparkSession)
    val input = data.by match {
      case KeyBy.Columns(columns) => OperatorInput.byColumns(df, columns, data.order)
      case KeyBy.Function(f, encoder) =>
        OperatorInput.byFunction(df, f, ObjectCodec.expression(encoder), data.order)
    }
    data.late.foreach(SideOutputs.checkLate(_, input.columns))
    Rows(df, input, data.late.map(_.id))
  }

  private def elementRows(elements: Dataset[_]): Rows = {
    val df = classic(elements)
    Rows(df, OperatorInput.byColumns(df, Nil), None)
  }

  private[jvm] def classic[T](data: Dataset[T]): ClassicDataset[T] = data match {
    case classic: ClassicDataset[T] => classic
    case _ => throw notClassic()
  }

  private[keystate] def notClassic(): KeystateException =
    KeystateErrors.declaration("Keystate needs a classic session, not Spark Connect.")

  private def declare(inputs: BroadcastData, rows: Rows): JvmBroadcastSpec = {
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
      JvmStateSpec(
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
    JvmBroadcastSpec(
      encoder.resolveAndBind(right.queryExecution.analyzed.output, rows.analyzer),
      states
    )
  }

  private[keystate] def checkExtension(session: ClassicSparkSession): Unit = {
    val extension = Settings.ExtensionClass
    val loaded = session.sessionState.conf.getConf(StaticSQLConf.SPARK_SESSION_EXTENSIONS)
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
