package org.apache.spark.sql.keystate

import java.util.{List => JList, UUID}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.Path
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse, render}
import org.json4s.{DefaultFormats, Formats}

import org.apache.spark.api.python.{PythonFunction => PickledFunction}
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.classic.ExpressionUtils.expression
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSparkSession}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.datasources.{DataSource, FileFormat}
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{Column, DataFrame, Dataset, SparkSession}

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.checkpoint.{
  CheckpointDifference,
  CheckpointReader,
  QueryCheckpoint,
  StoredOperatorState
}
import org.apache.spark.sql.keystate.connect.WorkerPython
import org.apache.spark.sql.keystate.copies.{
  CheckpointDeletion,
  CheckpointImport,
  Fork,
  Promotion,
  Savepoint,
  SavepointList
}
import org.apache.spark.sql.keystate.edit.{
  BatchInput,
  EditedCheckpoint,
  NewCheckpoint,
  WrittenOperator
}
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner}
import org.apache.spark.sql.keystate.plan.{KeyedInput, KeyedProcess, RightRole}
import org.apache.spark.sql.keystate.python.PythonOperatorFunction
import org.apache.spark.sql.keystate.rescale.{QueryRescaling, RescaleRequests, StopAtShutdown}
import org.apache.spark.sql.keystate.shim.RealTimeMode
import org.apache.spark.sql.keystate.source.{AvailableNowLimits, PythonSource, StatefulSource}
import org.apache.spark.sql.keystate.spec.OperatorSpec
import org.apache.spark.sql.keystate.store.RealTimeSession
import org.apache.spark.sql.keystate.table.{AsOf, CheckpointTables}

/** Every call that the Python package makes: by py4j in a classic session, by
  * [[KeystateConnectPlugin]] in one of Spark Connect. No two have the same name.
  */
object PythonBridge {

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
    *   the key columns: resolved names, or expressions over one row; none of rows without keys, and
    *   of rows that are broadcast
    * @param orders
    *   what the rows of a key are sorted by; none if in no order
    * @param role
    *   the name of the [[RightRole]] of the second DataFrame; empty if there is one
    * @param function
    *   a map-in-arrow Python function
    * @param outputSchema
    *   JSON of the schema of the rows that the function emits
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
  ): DataFrame = {
    val frames = inputs.asScala.toSeq.map(_.asInstanceOf[ClassicDataset[_]])
    val session = frames.head.sparkSession
    RealTimeSession.prepare(session)
    val read = frames.zipWithIndex.map { case (df, i) =>
      KeyedInput.byColumns(df, keys.get(i).asScala.toSeq, orders.get(i).asScala.toSeq)
    }
    ClassicDataset.ofRows(
      session,
      KeyedProcess.of(
        PythonOperatorFunction(expression(function).asInstanceOf[PythonUDF]),
        read.head,
        RightRole.named(role).map(read(1) -> _),
        DataType.fromJson(outputSchema).asInstanceOf[StructType],
        OperatorSpec.fromJson(spec)
      )
    )
  }

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
    val df = batch.asInstanceOf[ClassicDataset[_]]
    val session = df.sparkSession
    DataSource(session, format).providingInstance() match {
      case files: FileFormat =>
        new FileStreamSink(
          session,
          path,
          files,
          partitionBy.asScala.toSeq,
          options.asScala.grouped(2).map(option => option(0) -> option(1)).toMap
        ).addBatch(batchId, df.toDF())
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
      session: SparkSession,
      name: String,
      schema: String,
      reader: PickledFunction,
      availableNowRows: Long,
      availableNowMillis: Long
  ): DataFrame = {
    val rows = DataType.fromJson(schema).asInstanceOf[StructType]
    val limits = AvailableNowLimits(availableNowRows, availableNowMillis)
    val function = new PythonSource(name, rows, reader)
    StatefulSource(name, rows, function, limits).toDF(session.asInstanceOf[ClassicSparkSession])
  }

  /** Changes a stopped query's number of partitions. Returns the number before. */
  def rescale(session: SparkSession, checkpoint: String, partitions: Int): Int = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val root = new Path(stopped(classic, checkpoint))
    val conf = classic.sessionState.newHadoopConf()
    val files = CheckpointFiles.create(root, conf)
    CheckpointOwner.checkFinished(root, files)
    if (!files.exists(new Path(root, "offsets"))) throw KeystateErrors.noCheckpoint(checkpoint)
    val rescaling = new QueryRescaling(classic, root.toString)
    rescaling.checkProvider()
    val run = s"rescale to $partitions partitions"
    CheckpointOwner.take(root, conf, run)
    try rescaling.run(Some(partitions))
    finally CheckpointOwner.release(root, run)
  }

  /** Throws what the start of a running query failed with. The query itself ends with that only when
    * its next micro-batch begins.
    */
  def checkStart(session: SparkSession, query: String): Unit = {
    Option(activeQuery(session, query)).foreach { started =>
      CheckpointOwner.check(new Path(started.resolvedCheckpointRoot))
    }
  }

  /** Where the checkpoint of a running query is; empty if it does not run. */
  def checkpointOf(session: SparkSession, query: String): String =
    Option(activeQuery(session, query)).fold("")(_.resolvedCheckpointRoot)

  /** When this JVM is told to end, a query ends before, at the end of its micro-batch. */
  def stopAtShutdown(session: SparkSession, query: String, graceMillis: Long): Unit =
    new StopAtShutdown(() => Option(activeQuery(session, query)), graceMillis).register()

  private def activeQuery(session: SparkSession, query: String) =
    session
      .asInstanceOf[ClassicSparkSession]
      .sharedState
      .activeStreamingQueries
      .get(UUID.fromString(query))

  // What these do: see CheckpointReader.

  def inspect(session: SparkSession, checkpoint: String): String =
    reader(session).inspect(checkpoint)

  def verify(session: SparkSession, checkpoint: String): String =
    reader(session).verify(checkpoint)

  def statistics(session: SparkSession, checkpoint: String): String =
    reader(session).statistics(checkpoint)

  def diff(session: SparkSession, before: String, after: String): String =
    reader(session).diff(before, after)

  /** As `diff`, of operators that have other numbers in the two: in JSON a list of pairs. */
  def diffOperators(
      session: SparkSession,
      before: String,
      after: String,
      operators: String
  ): String = {
    val pairs = numbers(operators).toSeq.sorted
    reading(session, before) { left =>
      reading(session, after) { right =>
        compact(render(CheckpointDifference(left, right, pairs)))
      }
    }
  }

  /** The last committed micro-batch. */
  def lastBatch(session: SparkSession, checkpoint: String): Long =
    reading(session, checkpoint)(_.lastBatch)

  def describeState(
      session: SparkSession,
      checkpoint: String,
      operator: Long,
      state: String,
      version: Long
  ): String = reader(session).describeState(checkpoint, operator, state, version)

  def lookUp(
      session: SparkSession,
      checkpoint: String,
      operator: Long,
      state: String,
      version: Long,
      key: String,
      start: String,
      end: String,
      isRange: Boolean
  ): String =
    reader(session).lookUp(checkpoint, operator, state, version, key, start, end, isRange)

  def describeOperator(session: SparkSession, checkpoint: String, operator: Long): String =
    reader(session).describeOperator(checkpoint, operator)

  def history(
      session: SparkSession,
      checkpoint: String,
      operator: Long,
      key: String,
      first: Long,
      until: Long
  ): String = reader(session).history(checkpoint, operator, key, first, until)

  def describeForgetting(session: SparkSession, checkpoint: String, operator: Long): String =
    reader(session).describeForgetting(checkpoint, operator)

  def forget(session: SparkSession, checkpoint: String, operator: Long, keys: String): String =
    reader(session).forget(checkpoint, operator, keys)

  def traces(session: SparkSession, checkpoint: String, operator: Long, keys: String): String =
    reader(session).traces(checkpoint, operator, keys)

  def clock(session: SparkSession, checkpoint: String, operator: Long, batch: Long): String =
    reader(session).clock(checkpoint, operator, batch)

  /** Makes a checkpoint by which a query of these rows reads a micro-batch's input again.
    *
    * @param target
    *   a folder that is there and empty
    * @return
    *   the rows, whose sources fail where some are gone
    */
  def batchInput(
      session: SparkSession,
      checkpoint: String,
      batch: Long,
      rows: Dataset[_],
      target: String
  ): DataFrame = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val plan = rows.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed
    BatchInput.check(plan)
    reading(session, checkpoint) { opened =>
      new BatchInput(opened, new Path(target), classic.sessionState.newHadoopConf()).write(batch)
    }
    ClassicDataset.ofRows(classic, BatchInput.withoutLoss(plan))
  }

  /** A state, or the timers, of an operator in a version, as the table that [[KeystateCatalog]] has
    * of it.
    */
  def state(
      session: SparkSession,
      checkpoint: String,
      operator: Long,
      version: Long,
      state: String
  ): DataFrame = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val table = new CheckpointTables(
      classic.sessionState.newHadoopConf(),
      checkpoint,
      Some(s"$operator")
    ).table(state, AsOf.Version(version))
    val options = CaseInsensitiveStringMap.empty
    ClassicDataset.ofRows(classic, DataSourceV2Relation.create(table, None, None, options))
  }

  /** Copies what a query needs to go on. Returns the last micro-batch in the copy.
    *
    * @param version
    *   of the state; a negative number for the last one that is committed
    * @param byReference
    *   whether run files are shared and not copied
    */
  def savepoint(
      session: SparkSession,
      checkpoint: String,
      path: String,
      version: Long,
      byReference: Boolean
  ): Long = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    reading(session, checkpoint) { opened =>
      val target = new Path(resolved(classic, path))
      val conf = classic.sessionState.newHadoopConf()
      val of = Option.when(version >= 0)(version)
      if (byReference) Savepoint.byReference(opened, of, target, conf)
      else new Savepoint(opened, of, target, conf).write()
    }
  }

  /** Makes a [[Fork]]: for the other parameters see `savepoint`. */
  def fork(session: SparkSession, checkpoint: String, path: String, version: Long): Long =
    reading(session, checkpoint) { opened =>
      forkAt(session, path).make(opened, Option.when(version >= 0)(version))
    }

  /** Keeps what the micro-batches of a checkpoint began with, for its fork. */
  def keepBatches(
      session: SparkSession,
      checkpoint: String,
      fork: String,
      first: Long,
      last: Long
  ): Unit = reading(session, checkpoint) { opened =>
    forkAt(session, fork).keepBatches(opened, first, last)
  }

  /** Makes a kept micro-batch the pending one of a fork. */
  def beginBatch(session: SparkSession, fork: String, batch: Long): Unit =
    forkAt(session, fork).begin(batch)

  /** Deletes a fork, if it is there. */
  def deleteFork(session: SparkSession, fork: String): Unit = {
    stopped(session.asInstanceOf[ClassicSparkSession], fork)
    forkAt(session, fork).delete()
  }

  /** Lets a query of this driver begin no micro-batch after this one; with a negative number any.
    * Returns false where Spark's logs are not written by Keystate, and so nothing comes of it.
    */
  def limitBatches(session: SparkSession, checkpoint: String, last: Long): Boolean = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    CheckpointOwner.limit(new Path(resolved(classic, checkpoint)), Option.when(last >= 0)(last))
    CheckpointFiles.managesLogs(classic.sessionState.newHadoopConf())
  }

  /** Whether a running query is in real-time mode. */
  def isRealTime(session: SparkSession, query: String): Boolean =
    Option(activeQuery(session, query)).exists(started => RealTimeMode.isTrigger(started.trigger))

  // How another process asks an elastic query for other partitions: see RescaleRequests.

  def listenForRescales(session: SparkSession, checkpoint: String, isOn: Boolean): Unit =
    rescaleRequests(session, checkpoint).listen(isOn)

  /** As JSON: the numbers of partitions by the requests' ids. */
  def waitingRescales(session: SparkSession, checkpoint: String): String =
    compact(render(map2jvalue(rescaleRequests(session, checkpoint).waiting.toMap)))

  def answerRescale(session: SparkSession, checkpoint: String, id: String, answer: String): Unit =
    rescaleRequests(session, checkpoint).answer(id, answer)

  /** The request's id; empty if nobody listens. */
  def askRescale(session: SparkSession, checkpoint: String, partitions: Int): String =
    rescaleRequests(session, checkpoint).ask(partitions).getOrElse("")

  /** The answer; empty if there is none yet. */
  def rescaleAnswer(session: SparkSession, checkpoint: String, id: String): String =
    rescaleRequests(session, checkpoint).takeAnswer(id).getOrElse("")

  def withdrawRescale(session: SparkSession, checkpoint: String, id: String): Unit =
    rescaleRequests(session, checkpoint).withdraw(id)

  private def rescaleRequests(session: SparkSession, checkpoint: String) = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val root = new Path(resolved(classic, checkpoint))
    new RescaleRequests(root, classic.sessionState.newHadoopConf())
  }

  /** Throws if a query is running on a checkpoint, as far as that can be noticed. */
  def checkStopped(session: SparkSession, checkpoint: String): Unit = {
    val _ = stopped(session.asInstanceOf[ClassicSparkSession], checkpoint)
  }

  /** Puts a copy in the place of a checkpoint that is done with `batch`: see [[Promotion]].
    *
    * @param sameKeys
    *   as for `edit`
    */
  def promote(
      session: SparkSession,
      checkpoint: String,
      copy: String,
      batch: Long,
      sameKeys: String
  ): Unit = promotion(session, checkpoint, copy, sameKeys).run(batch)

  /** Puts the checkpoint in its place again. Returns false if it is too late. */
  def undoPromotion(
      session: SparkSession,
      checkpoint: String,
      copy: String,
      batch: Long,
      sameKeys: String
  ): Boolean = promotion(session, checkpoint, copy, sameKeys).undo(batch)

  /** The checkpoint that has the place of this one; empty if none has. */
  def movedTo(session: SparkSession, checkpoint: String): String = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val root = new Path(resolved(classic, checkpoint))
    val files = CheckpointFiles.create(root, classic.sessionState.newHadoopConf())
    CheckpointOwner.moved(root, files).getOrElse("")
  }

  private def promotion(
      session: SparkSession,
      checkpoint: String,
      copy: String,
      sameKeys: String
  ) = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val places = Seq(checkpoint, copy).map(place => new Path(stopped(classic, place)))
    new Promotion(places(0), places(1), numbers(sameKeys), classic.sessionState.newHadoopConf())
  }

  /** What operators' numbers become, from a list of pairs in JSON. */
  private def numbers(json: String): Map[Long, Long] = {
    implicit val formats: Formats = DefaultFormats
    parse(json).extract[List[List[Long]]].map(of => of(0) -> of(1)).toMap
  }

  private def forkAt(session: SparkSession, path: String) = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    new Fork(new Path(resolved(classic, path)), classic.sessionState.newHadoopConf())
  }

  /** The savepoints of a checkpoint, as JSON. */
  def savepoints(session: SparkSession, checkpoint: String): String = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val root = new Path(resolved(classic, checkpoint))
    new SavepointList(root, classic.sessionState.newHadoopConf()).run()
  }

  /** Deletes a checkpoint, but for what savepoints need. Returns how many run files stay.
    *
    * @param original
    *   of a savepoint that is gone already: what it was made from, which still keeps its files. Else
    *   empty
    */
  def deleteCheckpoint(session: SparkSession, checkpoint: String, original: String): Int = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val root = new Path(stopped(classic, checkpoint))
    val conf = classic.sessionState.newHadoopConf()
    if (original.isEmpty) new CheckpointDeletion(root, conf).run()
    else {
      new SavepointList(new Path(resolved(classic, original)), conf).forget(root)
      0
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

  /** Deletes a checkpoint that was imported only to be edited. Other folders are left alone: its name
    * has to begin with a dot, and it has to have Keystate's state.
    */
  def discardImported(session: SparkSession, checkpoint: String): Unit = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val root = new Path(stopped(classic, checkpoint))
    val fs = root.getFileSystem(classic.sessionState.newHadoopConf())
    if (root.getName.startsWith(".") && fs.exists(new Path(root, "state"))) {
      val _ = fs.delete(root, true)
    }
  }

  /** The operator state of each subtask after a micro-batch, as JSON. */
  def operatorState(
      session: SparkSession,
      checkpoint: String,
      operator: Long,
      batch: Long
  ): String = reading(session, checkpoint) { opened =>
    compact(render(new StoredOperatorState(opened, operator, batch).operatorState))
  }

  /** Makes a checkpoint for a new query of DataFrames.
    *
    * @param operators
    *   JSON of the operators; the lists that follow have an element for each of them
    * @param streams
    *   streams with the key columns, which have no rows
    * @param states
    *   the rows of states, with the columns that `StateEncoder` tells
    * @param sources
    *   how many sources the query will have
    */
  def create(
      session: SparkSession,
      target: String,
      operators: String,
      streams: JList[Dataset[_]],
      keys: JList[JList[Column]],
      states: JList[JList[Dataset[_]]],
      partitions: Int,
      sources: Int
  ): Unit = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val written = WrittenOperator.all(parse(operators).children, streams, keys, states)
    new NewCheckpoint(classic, new Path(resolved(classic, target)))
      .write(written, partitions, sources)
  }

  /** Makes a changed copy of a stopped query's checkpoint. Returns the last micro-batch in it.
    *
    * @param operators
    *   JSON of the operators that are written; the other parameters are as for `create`
    * @param copied
    *   the operators that are copied as they are; `copies` has their numbers in the copy
    * @param kind
    *   `copy`; `fork` for a [[Fork]]; `successor` for one that takes the checkpoint's place, see
    *   [[Promotion]]
    * @param sameKeys
    *   the operators whose keys are as they were, and their numbers in the copy: pairs in JSON
    */
  def edit(
      session: SparkSession,
      checkpoint: String,
      target: String,
      operators: String,
      streams: JList[Dataset[_]],
      keys: JList[JList[Column]],
      states: JList[JList[Dataset[_]]],
      copied: JList[Int],
      copies: JList[Int],
      kind: String,
      sameKeys: String
  ): Long = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    stopped(classic, checkpoint)
    val written = WrittenOperator.all(parse(operators).children, streams, keys, states)
    val unchanged = copied.asScala.map(_.toLong).zip(copies.asScala.map(_.toLong)).toSeq
    reading(session, checkpoint) { opened =>
      val fork = kind match {
        case "copy" => None
        case "fork" => Some(Fork.Identity())
        case "successor" => Some(Fork.Identity.ofSuccessor(opened))
      }
      new EditedCheckpoint(classic, opened, new Path(resolved(classic, target)), fork)
        .write(unchanged, written, numbers(sameKeys))
    }
  }

  private def reading[T](
      session: SparkSession,
      checkpoint: String
  )(read: QueryCheckpoint => T): T = {
    val classic = session.asInstanceOf[ClassicSparkSession]
    val conf = classic.sessionState.newHadoopConf()
    Using.resource(new QueryCheckpoint(conf, resolved(classic, checkpoint)))(read)
  }

  private def reader(session: SparkSession) =
    new CheckpointReader(session.asInstanceOf[ClassicSparkSession].sessionState.newHadoopConf())

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
    CheckpointFiles.qualified(checkpoint, session.sessionState.newHadoopConf())
}
