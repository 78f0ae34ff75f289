package org.apache.spark.sql.keystate

import java.io.IOException
import java.nio.channels.ClosedChannelException
import java.nio.charset.StandardCharsets.UTF_8

import net.razorvine.pickle.Unpickler
import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming.{
  MicroBatchStream,
  Offset,
  ReadLimit,
  SupportsAdmissionControl,
  SupportsTriggerAvailableNow
}
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceOffset
import org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner
import org.apache.spark.util.SerializableConfiguration

import keystate.checkpoint.SourceSegments

/** A stateful source in a query. Its function runs in a Python process next to the driver, from the
  * first batch on; `latestOffset` takes what was collected since the last one and writes it to the
  * source's log with the state after it, and tasks read the log. An offset is the number of a file
  * in the log.
  *
  * Relies on `PythonStreamingSourceRunner`, which starts the process and calls the methods of a
  * `DataSourceStreamReader` in it. Their arguments and results carry more than offsets here; see
  * `keystate/_worker/source.py`.
  */
private[keystate] final class SourceStream(source: StatefulSource, location: String)
    extends MicroBatchStream
    with SupportsAdmissionControl
    with SupportsTriggerAvailableNow {
  private val session = SparkSession.active
  private val conf = session.sessionState.newHadoopConf()
  private val sharedConf = session.sparkContext.broadcast(new SerializableConfiguration(conf))
  private val segments = new SourceSegments(new SparkCheckpointStorage(new Path(location), conf))
  private var runner: Option[PythonStreamingSourceRunner] = None
  private var oldest: Option[Long] = None

  /** The newest batch in the log, once the function runs. */
  private var newest = 0L

  /** With the trigger availableNow: how much more to take. */
  private var availableNow: Option[Budget] = None

  override def initialOffset(): Offset = offset(0)

  override def deserializeOffset(json: String): Offset = PythonStreamingSourceOffset(json)

  override def getDefaultReadLimit: ReadLimit = ReadLimit.allAvailable()

  override def prepareForTriggerAvailableNow(): Unit =
    availableNow = Some(new Budget(source.limits))

  override def latestOffset(): Offset =
    throw new IllegalStateException("Spark asks a source with admission control for its start")

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val from = batch(start)
    // What was written for a batch that Spark had not recorded when the query ended.
    if (runner.isEmpty && segments.exists(from + 1)) offset(from + 1)
    else {
      if (runner.isEmpty) begin(from)
      if (from < newest) offset(newest) else offset(collect())
    }
  }

  /** Takes what the function has collected, if there is any; returns the newest batch. */
  private def collect(): Long = {
    if (!availableNow.exists(_.isSpent)) {
      var answer = ask(JObject())
      while (answer.rows == 0 && !answer.waiting && availableNow.exists(!_.isSpent))
        answer = ask(JObject())
      if (answer.rows > 0) {
        write(newest + 1)
        newest += 1
        availableNow.foreach(_.took(answer.rows))
      }
    }
    newest
  }

  private def begin(from: Long): Unit = {
    val restored =
      if (from == 0) JNull else JString(new String(segments.read(from).header, UTF_8))
    newest = from
    val started = new PythonStreamingSourceRunner(source.reader, source.rows)
    runner = Some(started)
    started.init()
    val _ = ask(JObject("begin" -> JInt(from), "restored" -> restored))
  }

  private def ask(request: JObject): Answer = {
    val json = PythonStreamingSourceOffset(compact(render(request)))
    val answer = parse(calling(_.latestOffset(json, ReadLimit.allAvailable())))
    (answer \ "rows", answer \ "waiting") match {
      case (JInt(rows), JBool(waiting)) => Answer(rows.toLong, waiting)
      case _ => throw new IllegalStateException(s"Source ${source.name} answered $answer")
    }
  }

  private def write(number: Long): Unit = {
    val next = compact(render(JObject("batch" -> JInt(number))))
    val unpickler = new Unpickler
    val parts = calling(_.partitions("{}", next))._1.toSeq.map { pickled =>
      unpickler.loads(pickled).asInstanceOf[Array[Byte]]
    }
    segments.write(number, parts.head, parts.tail)
  }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    (batch(start) + 1 to batch(end))
      .flatMap(segments.read(_).chunks)
      .map(SourcePartition(_): InputPartition)
      .toArray

  override def createReaderFactory(): PartitionReaderFactory =
    new SourceReaderFactory(location, sharedConf)

  /** Rows up to the end are not needed any more; the state after them is. */
  override def commit(end: Offset): Unit = {
    val number = batch(end)
    val first = oldest.getOrElse(segments.list().headOption.getOrElse(number))
    (first until number).foreach(segments.delete)
    oldest = Some(number)
    if (runner.nonEmpty) calling(_.commit(end.json))
  }

  private def calling[T](call: PythonStreamingSourceRunner => T): T =
    try call(runner.get)
    catch {
      // When the query is stopped, this thread is interrupted and the channel closed.
      case e: ClosedChannelException => throw e
      case e: IOException => throw KeystateErrors.sourceDied(source.name, e)
    }

  override def stop(): Unit = {
    runner.foreach(_.stop())
    sharedConf.destroy()
  }

  override def toString: String = source.name

  private def offset(number: Long): Offset =
    PythonStreamingSourceOffset(s"""{"batch":$number}""")

  private def batch(offset: Offset): Long = parse(offset.json) \ "batch" match {
    case JInt(number) => number.toLong
    case _ => throw KeystateErrors.foreignOffset(source.name, offset.json)
  }
}

/** What the function's process has: rows for the next batch, or none, and whether it is waiting
  * because every subtask has ended or is idle.
  */
private final case class Answer(rows: Long, waiting: Boolean)

private final class Budget(limits: AvailableNowLimits) {
  private lazy val deadline = System.nanoTime() + limits.millis * 1000000L
  private var rows = limits.rows

  def took(number: Long): Unit = rows -= number
  def isSpent: Boolean = rows <= 0 || System.nanoTime() > deadline
}
