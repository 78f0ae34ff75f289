package org.apache.spark.sql.keystate.kafka

import java.time.Duration
import java.util.Collections.singletonMap
import java.util.concurrent.ExecutionException

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata
import org.apache.kafka.clients.producer.{KafkaProducer, ProducerRecord}
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.header.Header

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging

import keystate.errors.KeystateErrors

/** Publishes groups of files under one transactional id, one after the other.
  *
  * A producer that begins makes the broker refuse all earlier ones with its id, and end their
  * transactions; only then the token is read. So what the token says stays true until this producer
  * itself commits, or is refused.
  */
private[kafka] final class Publisher(options: KafkaSinkOptions, id: String) extends Logging {
  import Publisher._

  private final class Open(
      val producer: KafkaProducer[Array[Byte], Array[Byte]],
      var token: Option[Token]
  )
  private var open: Option[Open] = None

  /** Publishes rows, if that is not yet done.
    *
    * @param rows
    *   reads them from the beginning
    */
  def publish(batch: Long, attempt: String, rows: () => Iterator[KafkaRow]): Published =
    synchronized {
      val reused = open.nonEmpty
      try run(opened(), Token(batch, attempt), rows())
      catch {
        // Another producer may have taken the id since, or the broker has forgotten it.
        case NonFatal(e) if reused =>
          logInfo(s"The producer of $id is opened again", e)
          close()
          retried(run(opened(), Token(batch, attempt), rows()))
      }
    }

  private def retried(published: => Published): Published = {
    val done = published
    done.copy(aborted = done.aborted + 1)
  }

  private def opened(): Open = open.getOrElse {
    val producer = new KafkaProducer[Array[Byte], Array[Byte]](options.ofProducer(id))
    try {
      producer.initTransactions()
      val made = new Open(producer, Token.read(options, id))
      open = Some(made)
      made
    } catch {
      case e: Throwable =>
        producer.close(Duration.ZERO)
        throw e
    }
  }

  private def run(open: Open, token: Token, rows: Iterator[KafkaRow]): Published =
    if (open.token.contains(token)) Published(0, 0)
    else {
      open.token.filter(_.batch >= token.batch).foreach { found =>
        throw KeystateErrors.sinkAhead(id, found.batch, token.batch)
      }
      try {
        write(open.producer, token, rows)
        open.token = Some(token)
        Published(committed = 1, aborted = 0)
      } catch {
        case e: Throwable =>
          // Its transaction ends at the next `initTransactions`, at the latest by its timeout.
          try open.producer.abortTransaction()
          catch { case NonFatal(_) => }
          close()
          throw e
      }
    }

  private def write(
      producer: KafkaProducer[Array[Byte], Array[Byte]],
      token: Token,
      rows: Iterator[KafkaRow]
  ): Unit = {
    val found = rows.buffered
    val topic = found.head.topic
    // The topic may be created by this; before, no offset of it can be committed.
    producer.partitionsFor(topic)
    producer.beginTransaction()
    // First of all: if another producer has the id, this fails at once. After records, the client
    // may wait for its answer in vain.
    producer.sendOffsetsToTransaction(
      singletonMap(new TopicPartition(topic, 0), token.offset),
      new ConsumerGroupMetadata(id)
    )
    found.foreach { row =>
      val headers = row.headers.map { case (key, value) => new RowHeader(key, value): Header }
      producer.send(
        new ProducerRecord(row.topic, row.partition, row.key, row.value, headers.asJava)
      )
    }
    // It fails if a record could not be sent.
    producer.commitTransaction()
  }

  def close(): Unit = synchronized {
    open.foreach(_.producer.close(Duration.ZERO))
    open = None
  }
}

private[kafka] object Publisher {

  /** How many transactions there were, and where, as Spark names an executor in a preference. */
  final case class Published(
      committed: Int,
      aborted: Int,
      executor: String =
        s"executor_${SparkEnv.get.blockManager.blockManagerId.host}_${SparkEnv.get.executorId}"
  )

  private final class RowHeader(override val key: String, override val value: Array[Byte])
      extends Header

  /** Publishers of this JVM by transactional id: to begin takes longer than to commit. */
  private val publishers =
    new java.util.LinkedHashMap[(KafkaSinkOptions, String), Publisher](16, 0.75f, true)

  private final val Most = 64

  def of(options: KafkaSinkOptions, id: String): Publisher = publishers.synchronized {
    val found = publishers.computeIfAbsent((options, id), _ => new Publisher(options, id))
    if (publishers.size > Most) {
      val eldest = publishers.entrySet.iterator
      eldest.next().getValue.close()
      eldest.remove()
    }
    found
  }

  /** The cause of what a client's future throws. */
  def causeOf(error: Throwable): Throwable = error match {
    case e: ExecutionException if e.getCause != null => e.getCause
    case other => other
  }
}
