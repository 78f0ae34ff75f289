package org.apache.spark.sql.keystate.kafka

import java.util.concurrent.atomic.AtomicLong
import java.util.{EnumSet, Map => JMap, Set => JSet, UUID}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{SupportsWrite, Table, TableCapability}
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics
import org.apache.spark.sql.connector.write.streaming.StreamingWrite
import org.apache.spark.sql.connector.write.{
  LogicalWriteInfo, SupportsTruncate, Write, WriteBuilder
}
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

import keystate.errors.{KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.files.{CommitNotes, CommittingSink, QueryLogs}
import org.apache.spark.sql.keystate.kafka.Publisher.Published

/** The sink of one run of a query.
  *
  * Relies on Spark using this object for all micro-batches of a run, and on it being
  * `StreamExecution.sink`, whose `begin` is called when the run starts.
  */
private[keystate] final class KafkaSink(options: Map[String, String])
    extends Table
    with SupportsWrite
    with ReportsSinkMetrics
    with CommittingSink
    with Logging {
  import KafkaSink._

  private val own = KafkaSinkOptions.of(options)
  private lazy val session = SparkSession.active
  private lazy val conf: Broadcast[SerializableConfiguration] = session.sparkContext.broadcast(
    new SerializableConfiguration(session.sessionState.newHadoopConf())
  )

  @volatile private var run: Option[Run] = None

  private val committed, aborted, recovered, rows, millis = new AtomicLong
  @volatile private var open = 0

  /** The executors that have the producers, by group. */
  private var publishers = Map.empty[Int, String]

  override def name(): String = "keystate-kafka"
  override def schema(): StructType = new StructType
  override def capabilities(): JSet[TableCapability] =
    EnumSet.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val begun = run.getOrElse(throw KeystateErrors.sinkNotConfigured(name()))
    val written = new KafkaRows(info.schema, own.topic)
    new WriteBuilder with SupportsTruncate with SupportsStreamingUpdateAsAppend {
      override def truncate(): WriteBuilder = this
      override def build(): Write = new Write {
        override def toStreaming: StreamingWrite =
          new KafkaWrite(written, begun.checkpoint, conf, stage(begun))
      }
    }
  }

  override def begin(checkpoint: Path, query: String): Unit = naming {
    val id = own.id.getOrElse(s"keystate-$query")
    val begun = Run(checkpoint, id, new StagedFiles(checkpoint, conf.value.value))
    val commits = QueryLogs.commits(conf.value.value, checkpoint)
    val last = commits.batches.lastOption
    val staged = last.flatMap(commits.note).flatMap(StagedBatch.fromJson)
    // Every batch with rows has a group 0.
    Token.read(own, groupId(id, 0)).filter(token => !last.exists(token.batch <= _)).foreach {
      token => throw KeystateErrors.sinkAhead(groupId(id, 0), token.batch, last.getOrElse(-1L))
    }
    staged.foreach(recover(begun, _))
    last.foreach(cleanUp(begun, _))
    run = Some(begun)
  }

  /** Publishes what the run before may not have published. It deleted files only once all were. */
  private def recover(run: Run, staged: StagedBatch): Unit = {
    val there = run.files.names
    if (staged.files.forall(file => there(file.name))) {
      val published = publish(run, staged)
      recovered.addAndGet(published.map(_.committed.toLong).sum): Unit
    } else
      staged.groups.zipWithIndex.foreach { case (group, i) =>
        group.find(file => !there(file.name)).foreach { lost =>
          val token = Token.read(own, groupId(run.id, i))
          // Without a token the broker has forgotten it: then it was there once.
          if (token.exists(_.batch < staged.batch))
            throw KeystateErrors.stagedFileGone(
              s"${new Path(run.checkpoint, s"${CommitNotes.StagedFolder}/${lost.name}")}",
              staged.batch
            )
        }
      }
  }

  private def stage(run: Run)(batch: Long, files: Seq[StagedFile]): Unit =
    if (files.nonEmpty) {
      val most = if (isLittle(files)) 1 else session.sparkContext.defaultParallelism
      val staged = StagedBatch.of(batch, s"${UUID.randomUUID}", files, most)
      val note = CommitNotes.Note(
        staged.toJson,
        () =>
          naming {
            publish(run, staged)
            files.foreach(file => run.files.delete(file.name))
            if (batch % CleanUpEvery == 0) cleanUp(run, batch)
          }
      )
      CommitNotes.put(run.checkpoint, batch, note)
    }

  /** Whether the driver itself publishes them. */
  private def isLittle(files: Seq[StagedFile]) = files.map(_.bytes).sum < own.driverBytes

  private def publish(run: Run, staged: StagedBatch): Seq[Published] = {
    val started = System.nanoTime
    open = staged.groups.size
    val tasks = new PublishingTasks(own, run.id, s"${run.checkpoint}", conf, staged)
    val published =
      try
        if (isLittle(staged.files))
          staged.groups.indices.map(tasks.publish)
        else {
          // Where their producers are: to open one again takes longer than to publish.
          val groups = staged.groups.indices.map(group => group -> publishers.get(group).toSeq)
          session.sparkContext.makeRDD(groups).map(tasks.publish).collect().toSeq
        }
      finally open = 0
    publishers = published.zipWithIndex.map { case (done, group) => group -> done.executor }.toMap
    committed.addAndGet(published.map(_.committed.toLong).sum)
    aborted.addAndGet(published.map(_.aborted.toLong).sum)
    rows.addAndGet(staged.rows)
    millis.set((System.nanoTime - started) / 1000000)
    published
  }

  /** Deletes files of batches that are decided. Those of a batch that is not may yet count: another
    * driver may be about to commit it.
    */
  private def cleanUp(run: Run, decided: Long): Unit =
    try
      for {
        name <- run.files.names
        batch <- StagedFiles.batchOf(name) if batch <= decided
      } run.files.delete(name)
    catch { case NonFatal(e) => logWarning("Could not delete old staged files", e) }

  private def naming[T](work: => T): T =
    try work
    catch {
      case e: KeystateException => throw e
      case NonFatal(e) => throw KeystateErrors.sinkFailed(name(), Publisher.causeOf(e))
    }

  override def metrics(): JMap[String, String] = Map(
    "transactionsOpen" -> open.toLong,
    "transactionsCommitted" -> committed.get,
    "transactionsAborted" -> aborted.get,
    "transactionsRecovered" -> recovered.get,
    "rowsPublished" -> rows.get,
    "publishMs" -> millis.get
  ).map { case (name, value) => name -> s"$value" }.asJava

  override def toString: String = "KeystateKafkaSink"
}

private object KafkaSink {

  /** Where a run stages, and the sink's id. */
  private final case class Run(checkpoint: Path, id: String, files: StagedFiles)

  /** Zombies leave files seldom, so they need not be looked for in each batch. */
  private final val CleanUpEvery = 100

  def groupId(sink: String, group: Int): String = s"$sink-$group"
}

/** Publishes the groups of a batch, in tasks or in the driver. */
private final class PublishingTasks(
    options: KafkaSinkOptions,
    sink: String,
    checkpoint: String,
    conf: Broadcast[SerializableConfiguration],
    staged: StagedBatch
) extends Serializable {
  def publish(group: Int): Published = {
    val files = new StagedFiles(new Path(checkpoint), conf.value.value)
    Publisher
      .of(options, KafkaSink.groupId(sink, group))
      .publish(
        staged.batch,
        staged.attempt,
        () => staged.groups(group).iterator.flatMap(files.read)
      )
  }
}
