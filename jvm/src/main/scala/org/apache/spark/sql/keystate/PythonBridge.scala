package org.apache.spark.sql.keystate

import java.util.{List => JList}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.Path
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.api.python.{PythonFunction => PickledFunction}
import org.apache.spark.sql.{Column, DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSparkSession}
import org.apache.spark.sql.classic.ExpressionUtils.expression
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
import org.apache.spark.sql.execution.streaming.utils.StreamingUtils
import org.apache.spark.sql.types.{DataType, StructType}

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.checkpoint.{
  CheckpointDifference,
  CheckpointImport,
  CheckpointReport,
  QueryCheckpoint,
  Savepoint,
  StoredTimers
}
import org.apache.spark.sql.keystate.files.CheckpointOwner
import org.apache.spark.sql.keystate.plan.{
  BroadcastProcess,
  KeyedInput,
  KeyedProcess,
  TwoInputProcess
}
import org.apache.spark.sql.keystate.python.PythonOperatorFunction
import org.apache.spark.sql.keystate.rescale.QueryRescaling
import org.apache.spark.sql.keystate.source.{AvailableNowLimits, StatefulSource}
import org.apache.spark.sql.keystate.spec.OperatorSpec
import org.apache.spark.sql.keystate.store.RealTimeSession

/** Every call that the Python package makes. */
object PythonBridge {

  /** Applies a keyed function to a DataFrame.
    *
    * @param function
    *   a map-in-arrow Python function
    * @param keys
    *   the key columns: resolved names, or expressions over one row
    * @param order
    *   what the rows of a key are sorted by; none if in no order
    * @param outputSchema
    *   JSON of the schema of the rows that the function emits
    * @param spec
    *   JSON of the operator, see [[OperatorSpec]]
    */
  def process(
      data: Dataset[_],
      function: Column,
      keys: JList[Column],
      order: JList[Column],
      outputSchema: String,
      spec: String
  ): DataFrame = {
    val df = data.asInstanceOf[ClassicDataset[_]]
    RealTimeSession.prepare(df.sparkSession)
    val input = KeyedInput.byColumns(df, keys.asScala.toSeq)
    val operator = OperatorSpec.fromJson(spec)
    ClassicDataset.ofRows(
      df.sparkSession,
      KeyedProcess(
        PythonOperatorFunction(expression(function).asInstanceOf[PythonUDF]),
        input.keys,
        input.columns,
        input.output(
          DataType.fromJson(outputSchema).asInstanceOf[StructType],
          operator.sideOutputs
        ),
        operator,
        KeyedInput.order(df, order.asScala.toSeq),
        input.child
      )
    )
  }

  /** Applies a function to two DataFrames with the same keys.
    *
    * @param merged
    *   whether the rows of both come by the first of their orders; the other parameters are as for
    *   `process`
    */
  def processTwo(
      first: Dataset[_],
      second: Dataset[_],
      function: Column,
      firstKeys: JList[Column],
      secondKeys: JList[Column],
      firstOrder: JList[Column],
      secondOrder: JList[Column],
      merged: Boolean,
      outputSchema: String,
      spec: String
  ): DataFrame = {
    val one = first.asInstanceOf[ClassicDataset[_]]
    val two = second.asInstanceOf[ClassicDataset[_]]
    RealTimeSession.prepare(one.sparkSession)
    ClassicDataset.ofRows(
      one.sparkSession,
      TwoInputProcess.connect(
        PythonOperatorFunction(expression(function).asInstanceOf[PythonUDF]),
        KeyedInput.byColumns(one, firstKeys.asScala.toSeq),
        KeyedInput.byColumns(two, secondKeys.asScala.toSeq),
        (
          KeyedInput.order(one, firstOrder.asScala.toSeq),
          KeyedInput.order(two, secondOrder.asScala.toSeq)
        ),
        merged,
        DataType.fromJson(outputSchema).asInstanceOf[StructType],
        OperatorSpec.fromJson(spec)
      )
    )
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
      session: SparkSession,
      name: String,
      schema: String,
      reader: PickledFunction,
      availableNowRows: Long,
      availableNowMillis: Long
  ): DataFrame = {
    val rows = DataType.fromJson(schema).asInstanceOf[StructType]
    val limits = AvailableNowLimits(availableNowRows, availableNowMillis)
    StatefulSource(name, rows, reader, limits).toDF(session.asInstanceOf[ClassicSparkSession])
  }

  /** Applies a function, keyed or not, to a DataFrame. Another DataFrame is broadcast to its
    * subtasks.
    *
    * @param keys
    *   none if the function is not keyed; the other parameters are as for `process`
    */
  def processBroadcast(
      data: Dataset[_],
      broadcast: Dataset[_],
      function: Column,
      keys: JList[Column],
      order: JList[Column],
      outputSchema: String,
      spec: String
  ): DataFrame = {
    val keyed = process(data, function, keys, order, outputSchema, spec)
      .asInstanceOf[ClassicDataset[_]]
    val right = broadcast.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed
    keyed.queryExecution.analyzed match {
      case operator: KeyedProcess =>
        ClassicDataset.ofRows(keyed.sparkSession, BroadcastProcess.connect(operator, right))
      case other => throw new IllegalStateException(s"unexpected plan $other")
    }
  }

  /** Changes a stopped query's number of partitions. Returns the number before. */
  def rescale(session: SparkSession, checkpoint: String, partitions: Int): Int = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val root = new Path(stopped(classic, checkpoint))
    val conf = classic.sessionState.newHadoopConf()
    // Spark's logs make their folders when they are opened.
    if (!CheckpointFileManager.create(root, conf).exists(new Path(root, "offsets")))
      throw KeystateErrors.noCheckpoint(checkpoint)
    val rescaling = new QueryRescaling(classic, root.toString)
    rescaling.checkProvider()
    val run = s"rescale to $partitions partitions"
    CheckpointOwner.take(root, conf, run)
    try rescaling.run(Some(partitions))
    finally CheckpointOwner.release(root, run)
  }

  /** What is in a checkpoint, as JSON. */
  def inspect(session: SparkSession, checkpoint: String): String =
    reading(session, checkpoint)(opened => compact(render(new CheckpointReport(opened).inspect())))

  /** Reads all of a checkpoint. Returns what is wrong, as JSON. */
  def verify(session: SparkSession, checkpoint: String): String =
    reading(session, checkpoint)(opened => compact(render(new CheckpointReport(opened).verify())))

  /** How many keys of each state differ between two checkpoints, as JSON. */
  def diff(session: SparkSession, before: String, after: String): String =
    reading(session, before) { left =>
      reading(session, after)(right => compact(render(CheckpointDifference(left, right))))
    }

  /** The timers of an operator after a micro-batch.
    *
    * @param keySchema
    *   JSON of the schema of the key columns
    */
  def timers(
      session: SparkSession,
      checkpoint: String,
      operator: Long,
      batch: Long,
      keySchema: String
  ): DataFrame = reading(session, checkpoint) { opened =>
    val key = DataType.fromJson(keySchema).asInstanceOf[StructType]
    new StoredTimers(opened, operator, key).toDF(session.asInstanceOf[ClassicSparkSession], batch)
  }

  /** Copies what a stopped query needs to go on. Returns the last micro-batch in the copy. */
  def savepoint(session: SparkSession, checkpoint: String, path: String): Long = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    stopped(classic, checkpoint)
    reading(session, checkpoint) { opened =>
      val target = new Path(resolved(classic, path))
      new Savepoint(opened, target, classic.sessionState.newHadoopConf()).write()
    }
  }

  /** Makes a checkpoint of Keystate from one of Spark. Returns the last micro-batch in it. */
  def importCheckpoint(session: SparkSession, source: String, target: String): Long = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    stopped(classic, source)
    reading(session, source) { opened =>
      new CheckpointImport(classic, opened, new Path(resolved(classic, target))).run()
    }
  }

  private def reading[T](
      session: SparkSession,
      checkpoint: String
  )(read: QueryCheckpoint => T): T = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    Using.resource(new QueryCheckpoint(classic, resolved(classic, checkpoint)))(read)
  }

  /** The resolved place of a checkpoint. Throws if a query is running on it, in this session or in
    * another process of this machine. A query on another machine is not noticed.
    */
  private def stopped(session: ClassicSparkSession, checkpoint: String): String = {
    val root = resolved(session, checkpoint)
    session.streams.active.foreach {
      // Compared as paths: one may be file:/a and the other file:///a.
      case query: StreamingQueryWrapper
          if new Path(query.streamingQuery.resolvedCheckpointRoot) == new Path(root) =>
        throw KeystateErrors.queryIsRunning(checkpoint)
      case _ =>
    }
    CheckpointOwner
      .aliveElsewhere(new Path(root), session.sessionState.newHadoopConf())
      .foreach(who => throw KeystateErrors.queryIsRunning(checkpoint, Some(who)))
    root
  }

  private def resolved(session: ClassicSparkSession, checkpoint: String): String =
    StreamingUtils.resolvedCheckpointLocation(session.sessionState.newHadoopConf(), checkpoint)
}
