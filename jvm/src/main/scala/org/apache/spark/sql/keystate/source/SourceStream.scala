package org.apache.spark.sql.keystate.source

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parseOpt, render}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.{
  MicroBatchStream, Offset, ReadLimit, SupportsAdmissionControl, SupportsTriggerAvailableNow
}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceOffset
import org.apache.spark.util.SerializableConfiguration

import keystate.checkpoint.{SegmentName, SourceSegments}
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage

/** A stateful source in a query. From the first micro-batch on, its function runs next to the
  * driver. `latestOffset` takes the rows collected since the last call, and writes them to the
  * source's log together with the state after them. Tasks read the log.
  *
  * An offset is the name of a file in the log: a batch number and an id. The id is needed because
  * another driver on the checkpoint may write that batch too. A file that no offset names is not
  * read: the function runs that batch again, from the state before it.
  */
private[keystate] final class SourceStream(source: StatefulSource, location: String)
    extends MicroBatchStream
    with SupportsAdmissionControl
    with SupportsTriggerAvailableNow {
  import SourceStream._

  private val session = SparkSession.active
  private val conf = session.sessionState.newHadoopConf()
  private val sharedConf = session.sparkContext.broadcast(new SerializableConfiguration(conf))
  private val segments = new SourceSegments(new SparkCheckpointStorage(new Path(location), conf))
  private var run: Option[SourceSession] = None

  /** The newest batch in the log. Valid once the function runs. */
  private var newest = Beginning

  /** The last batch whose commit was reported to the function. */
  private var told = Beginning

  /** With the trigger availableNow: how much more may be taken. None with other triggers. */
  private var availableNow: Option[Budget] = None

  override def initialOffset(): Offset = offset(Beginning)

  override def deserializeOffset(json: String): Offset = PythonStreamingSourceOffset(json)

  override def getDefaultReadLimit: ReadLimit = ReadLimit.allAvailable()

  override def prepareForTriggerAvailableNow(): Unit =
    availableNow = Some(new Budget(source.limits))

  override def latestOffset(): Offset =
    throw new IllegalStateException("Spark asks a source with admission control for its start")

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val from = segment(start)
    if (run.isEmpty) begin(from)
    if (from == newest) collect()
    offset(newest)
  }

  /** Writes the function's collected rows as a new batch, if there are any. */
  private def collect(): Unit =
    if (!availableNow.exists(_.isSpent)) {
      var collected = run.get.await()
      while (collected.rows == 0 && !collected.waiting && availableNow.exists(!_.isSpent))
        collected = run.get.await()
      if (collected.rows > 0) {
        newest = write(newest.batch + 1)
        availableNow.foreach(_.took(collected.rows))
      }
    }

  private def begin(from: SegmentName): Unit = {
    newest = from
    val header = Option.when(from != Beginning)(segments.read(from).header)
    val started = source.function.create()
    run = Some(started)
    started.begin(from.batch, header)
  }

  private def write(number: Long): SegmentName = {
    val name = SegmentName(number, UUID.randomUUID.toString)
    val cut = run.get.cut(number)
    segments.write(name, cut.header, cut.chunks)
    name
  }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    if (segment(end).batch <= segment(start).batch) Array.empty
    else segments.read(segment(end)).chunks.map(SourcePartition(_): InputPartition).toArray

  override def createReaderFactory(): PartitionReaderFactory =
    new SourceReaderFactory(source.name, source.rows, location, sharedConf)

  // If a query has several sources, Spark reports each micro-batch to all of them, also those
  // without rows of this one: then it is the previous offset, which the function knows of, or the
  // beginning, for which it has no snapshot.
  override def commit(end: Offset): Unit = {
    val last = segment(end)
    segments.commit(last)
    run.filter(_ => last != told).foreach { run =>
      run.committed(last.batch)
      told = last
    }
  }

  override def stop(): Unit = {
    run.foreach(_.stop())
    sharedConf.destroy()
  }

  override def toString: String = source.name

  private def offset(name: SegmentName): Offset = {
    val id = Option.when(name != Beginning)(JField("id", JString(name.id)))
    val fields = JField("batch", JInt(name.batch)) :: id.toList
    PythonStreamingSourceOffset(compact(render(JObject(fields))))
  }

  private def segment(offset: Offset): SegmentName =
    segmentOf(offset.json).getOrElse(throw KeystateErrors.foreignOffset(source.name, offset.json))
}

private[keystate] object SourceStream {

  /** The offset before the first batch. It names no file. */
  val Beginning = SegmentName(0, "")

  /** The file that an offset names. None if the offset is not one of a stateful source. */
  def segmentOf(offset: String): Option[SegmentName] =
    parseOpt(offset).flatMap { json =>
      (json \ "batch", json \ "id") match {
        case (JInt(batch), JNothing) if batch == Beginning.batch => Some(Beginning)
        // Only a name that a source could have given: the log is not trusted.
        case (JInt(batch), JString(id)) =>
          SourceSegments.parse(SegmentName(batch.toLong, id).file)
        case _ => None
      }
    }
}

private final class Budget(limits: AvailableNowLimits) {
  private lazy val deadline = System.nanoTime() + limits.millis * 1000000L
  private var rows = limits.rows

  def took(number: Long): Unit = rows -= number
  def isSpent: Boolean = rows <= 0 || System.nanoTime() > deadline
}
