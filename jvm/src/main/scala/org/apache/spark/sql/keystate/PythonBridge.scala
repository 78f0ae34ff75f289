package org.apache.spark.sql.keystate

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.api.python.{PythonFunction => PickledFunction}
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.ExpressionUtils.expression
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSparkSession}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.datasources.{DataSource, FileFormat}
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{Column, DataFrame, Dataset, SparkSession}

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.SessionCheckpoints.numbers
import org.apache.spark.sql.keystate.checkpoint.{
  CheckpointDifference, CheckpointReader, StoredOperatorState
}
import org.apache.spark.sql.keystate.edit.BatchInput
import org.apache.spark.sql.keystate.files.CheckpointFiles
import org.apache.spark.sql.keystate.operator.InputRole
import org.apache.spark.sql.keystate.plan.{
  AggregatePlan, AggregateSpec, AsOfPlan, AsOfSpec, JoinAllPlan, JoinAllSpec, KeyedProcess,
  MatchRecognizePlan, OperatorInput, PatternPlan, PatternSpec
}
import org.apache.spark.sql.keystate.python.PythonOperatorFunction
import org.apache.spark.sql.keystate.realtime.RealTimeSession
import org.apache.spark.sql.keystate.source.{AvailableNowLimits, PythonSource, StatefulSource}
import org.apache.spark.sql.keystate.spec.OperatorSpec
import org.apache.spark.sql.keystate.table.{AsOf, CheckpointTables}

/** Every call that the Python package makes in a session: by py4j in a classic one, by
  * [[KeystateConnectPlugin]] in one of Spark Connect. No two have the same name.
  */
final class PythonBridge private (protected val checkpoints: SessionCheckpoints)
    extends CheckpointReader(checkpoints.conf)
    with RunningQueryCalls
    with CopyCalls {
  private val session = checkpoints.session

  /** The version of this jar, and of the Python that a Spark Connect server's workers run, as JSON.
    */
  def environment(): String = {
    val jar = Option(getClass.getPackage.getImplementationVersion)
    compact(render(("keystate" -> jar) ~ ("python" -> WorkerPython.version)))
  }

  /** JSON of the schema of a DataFrame. */
  def schema(data: Dataset[_]): String = data.schema.json

  /** Applies a function to the rows of one DataFrame or two.
    *
    * @param inputs
    *   the DataFrames; the two lists that follow have an element for each of them
    * @param keys
    *   the key columns: resolved names, or expressions over one row; none for rows without keys and
    *   for broadcast rows
    * @param orders
    *   the sort order of a key's rows; empty for no order
    * @param role
    *   the name of the [[InputRole]] of the second DataFrame; empty if there is only one
    * @param function
    *   a map-in-arrow Python function
    * @param outputSchema
    *   JSON of the schema of the function's results
    * @param spec
    *   JSON of the operator, see [[OperatorSpec]]
    */
  def process(
      inputs: JList[Dataset[_]],
      keys: JList[JList[Column]],
      orders: JList[JList[Column]],
      role: String,
      function: Column,
      outputSchema: String,
      spec: String
  ): DataFrame = operator {
    val read = keyedInputs(inputs, keys, orders)
    KeyedProcess.of(
      PythonOperatorFunction(expression(function).asInstanceOf[PythonUDF]),
      read.head,
      InputRole.named(role).map(read(1) -> _),
      DataType.fromJson(outputSchema).asInstanceOf[StructType],
      OperatorSpec.fromJson(spec)
    )
  }

  /** Aggregates of the rows of a key, or of its windows.
    *
    * @param keys
    *   as in `process`; so is `order`
    * @param spec
    *   JSON of the rest of the declaration, see [[AggregateSpec]]
    */
  def aggregate(
      rows: Dataset[_],
      keys: JList[Column],
      order: JList[Column],
      aggregates: JList[Column],
      spec: String
  ): DataFrame = operator {
    val df = rows.asInstanceOf[ClassicDataset[_]]
    val by = keys.asScala.toSeq
    val input = OperatorInput.byColumns(df, by, order.asScala.toSeq)
    AggregatePlan.of(df, input, by, aggregates.asScala.toSeq, AggregateSpec.fromJson(spec))
  }

  /** Matches of a pattern of parts.
    *
    * @param keys
    *   as in `process`
    * @param order
    *   the time, and what orders the rows of a time
    * @param conditions
    *   the conditions of parts, by their numbers
    * @param results
    *   the columns of a match; none if its rows are wanted
    * @param spec
    *   JSON of the rest of the declaration, see [[PatternSpec]]
    */
  def pattern(
      rows: Dataset[_],
      keys: JList[Column],
      order: JList[Column],
      conditions: JList[Column],
      results: JList[Column],
      spec: String
  ): DataFrame = operator {
    val df = rows.asInstanceOf[ClassicDataset[_]]
    val input = OperatorInput.byColumns(df, keys.asScala.toSeq, order.asScala.toSeq)
    PatternPlan.of(
      df,
      input,
      conditions.asScala.toSeq,
      results.asScala.toSeq,
      PatternSpec.fromJson(spec)
    )
  }

  /** What `MATCH_RECOGNIZE (...)` of SQL makes of a DataFrame.
    *
    * @param text
    *   what is in its brackets
    * @param name
    *   the operator's name; empty if it has none
    */
  def matchRecognize(rows: Dataset[_], text: String, name: String): DataFrame = operator {
    val df = rows.asInstanceOf[ClassicDataset[_]]
    MatchRecognizePlan.of(df, text, Option(name).filter(_.nonEmpty))
  }

  /** An as-of join of two keyed DataFrames.
    *
    * @param inputs
    *   the left one and the right one; the two lists that follow are as in `process`
    * @param spec
    *   JSON of the rest of the declaration, see [[AsOfSpec]]
    */
  def joinAsOf(
      inputs: JList[Dataset[_]],
      keys: JList[JList[Column]],
      orders: JList[JList[Column]],
      spec: String
  ): DataFrame = operator {
    val Seq(left, right) = keyedInputs(inputs, keys, orders): @unchecked
    AsOfPlan.of(left, right, AsOfSpec.fromJson(spec))
  }

  /** A join of many keyed DataFrames.
    *
    * @param inputs
    *   the DataFrames; the two lists that follow are as in `process`
    * @param spec
    *   JSON of the rest of the declaration, see [[JoinAllSpec]]
    */
  def joinAll(
      inputs: JList[Dataset[_]],
      keys: JList[JList[Column]],
      orders: JList[JList[Column]],
      spec: String
  ): DataFrame = operator {
    JoinAllPlan.of(keyedInputs(inputs, keys, orders), JoinAllSpec.fromJson(spec))
  }

  /** The output of an operator. */
  private def operator(plan: => LogicalPlan): DataFrame = {
    RealTimeSession.prepare(session)
    ClassicDataset.ofRows(session, plan)
  }

  private def keyedInputs(
      inputs: JList[Dataset[_]],
      keys: JList[JList[Column]],
      orders: JList[JList[Column]]
  ): Seq[OperatorInput] = inputs.asScala.toSeq.zipWithIndex.map { case (df, i) =>
    val frame = df.asInstanceOf[ClassicDataset[_]]
    OperatorInput.byColumns(frame, keys.get(i).asScala.toSeq, orders.get(i).asScala.toSeq)
  }

  private def planOf(rows: Dataset[_]): LogicalPlan =
    rows.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed

  /** Adds a micro-batch to files, unless it is among them: relies on Spark's file sink, whose log has
    * the ids of micro-batches.
    *
    * @param options
    *   names and values in turn
    * @return
    *   the micro-batch's id
    */
  def addFiles(
      batch: Dataset[_],
      batchId: Long,
      path: String,
      format: String,
      partitionBy: JList[String],
      options: JList[String]
  ): Long = {
    DataSource(session, format).providingInstance() match {
      case files: FileFormat =>
        new FileStreamSink(
          session,
          // Spark's sink writes to a place with a scheme only; its writer makes one of a path too.
          CheckpointFiles.qualified(path, checkpoints.conf),
          files,
          partitionBy.asScala.toSeq,
          options.asScala.grouped(2).map(option => option(0) -> option(1)).toMap
        ).addBatch(batchId, batch.asInstanceOf[ClassicDataset[_]].toDF())
      case _ => throw KeystateErrors.declaration(s"'$format' is no format of files.")
    }
    batchId
  }

  /** A streaming DataFrame of a stateful source.
    *
    * @param reader
    *   a pickled `DataSource`
    * @param availableNowRows
    *   with the trigger availableNow: after how many rows the query ends
    * @param availableNowMillis
    *   likewise: after how many ms
    */
  def source(
      name: String,
      schema: String,
      reader: PickledFunction,
      availableNowRows: Long,
      availableNowMillis: Long
  ): DataFrame = {
    val rows = DataType.fromJson(schema).asInstanceOf[StructType]
    val limits = AvailableNowLimits(availableNowRows, availableNowMillis)
    // Rows of a pending batch may have nulls from when the source declared columns that allow them.
    StatefulSource(name, rows.asNullable, new PythonSource(name, rows, reader), limits)
      .toDF(session)
  }

  /** Like `diff`, for operators with different numbers in the two: in JSON a list of pairs. */
  def diffOperators(before: String, after: String, operators: String): String = {
    val pairs = numbers(operators).toSeq.sorted
    checkpoints.reading(before) { left =>
      checkpoints.reading(after) { right =>
        compact(render(CheckpointDifference(left, right, pairs)))
      }
    }
  }

  /** The last committed micro-batch. */
  def lastBatch(checkpoint: String): Long = checkpoints.reading(checkpoint)(_.lastBatch)

  /** The operator state of each subtask after a micro-batch, as JSON. */
  def operatorState(checkpoint: String, operator: Long, batch: Long): String =
    checkpoints.reading(checkpoint) { opened =>
      compact(render(new StoredOperatorState(opened, operator, batch).operatorState))
    }

  /** A state, or the timers, of an operator in a version, as the table in [[KeystateCatalog]]. */
  def state(checkpoint: String, operator: Long, version: Long, state: String): DataFrame = {
    val tables = new CheckpointTables(checkpoints.conf, checkpoint, Some(s"$operator"))
    val table = tables.table(state, AsOf.Version(version))
    val options = CaseInsensitiveStringMap.empty
    ClassicDataset.ofRows(session, DataSourceV2Relation.create(table, None, None, options))
  }

  /** Makes a checkpoint with which a query of these rows reads a micro-batch's input again.
    *
    * @param target
    *   an existing, empty folder
    * @return
    *   the rows, whose sources fail if some rows are gone
    */
  def batchInput(checkpoint: String, batch: Long, rows: Dataset[_], target: String): DataFrame = {
    val plan = planOf(rows)
    BatchInput.check(plan)
    checkpoints.reading(checkpoint) { opened =>
      new BatchInput(opened, new Path(target), checkpoints.conf).write(batch)
    }
    ClassicDataset.ofRows(session, BatchInput.withoutLoss(plan))
  }
}

object PythonBridge {

  /** The calls in a session. */
  def of(session: SparkSession): PythonBridge =
    new PythonBridge(new SessionCheckpoints(session.asInstanceOf[ClassicSparkSession]))
}
