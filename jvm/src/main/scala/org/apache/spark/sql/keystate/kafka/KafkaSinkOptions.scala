package org.apache.spark.sql.keystate.kafka

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.AdminClientConfig
import org.apache.kafka.clients.producer.ProducerConfig
import org.apache.kafka.common.serialization.ByteArraySerializer

import keystate.errors.KeystateErrors

/** The options of a sink: those of Spark's Kafka sink, and `sinkId` and `driverBytes`.
  *
  * @param topic
  *   the topic of rows; None if a column has it
  * @param kafka
  *   the settings of Kafka's clients
  * @param id
  *   the sink's id, if it is set
  * @param driverBytes
  *   the driver itself publishes a micro-batch with fewer bytes: a job would take longer
  */
private[kafka] final case class KafkaSinkOptions(
    topic: Option[String],
    kafka: Map[String, String],
    id: Option[String],
    driverBytes: Long
) {

  /** @param transactionalId
    *   the id of all transactions of the producer
    */
  def ofProducer(transactionalId: String): java.util.Map[String, Object] = {
    val own = Map(
      ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG -> classOf[ByteArraySerializer].getName,
      ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG -> classOf[ByteArraySerializer].getName,
      ProducerConfig.TRANSACTIONAL_ID_CONFIG -> transactionalId
    )
    (kafka ++ own).asJava.asInstanceOf[java.util.Map[String, Object]]
  }

  /** What an admin client takes of the settings: it would warn of the others. */
  def ofAdmin: java.util.Map[String, Object] = {
    val known = AdminClientConfig.configNames
    kafka
      .filter { case (name, _) => known.contains(name) }
      .asJava
      .asInstanceOf[java.util.Map[String, Object]]
  }
}

private[kafka] object KafkaSinkOptions {
  private final val Prefix = "kafka."

  /** Settings that the sink itself decides. */
  private val Own = Set(
    ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG,
    ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG,
    ProducerConfig.TRANSACTIONAL_ID_CONFIG,
    ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG,
    ProducerConfig.ACKS_CONFIG
  )

  def of(options: Map[String, String]): KafkaSinkOptions = {
    val kafka = options.collect {
      case (name, value) if name.toLowerCase(Locale.ROOT).startsWith(Prefix) =>
        name.toLowerCase(Locale.ROOT).drop(Prefix.length) -> value
    }
    kafka.keys.find(Own).foreach { name =>
      throw KeystateErrors.declaration(
        s"The sink 'keystate-kafka' sets '$name' itself: leave out the option '$Prefix$name'."
      )
    }
    if (!kafka.contains(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG))
      throw KeystateErrors.declaration(
        "The sink 'keystate-kafka' needs the option 'kafka.bootstrap.servers'."
      )
    def option(name: String) =
      options.collectFirst { case (given, value) if given.equalsIgnoreCase(name) => value }
    val driverBytes = option("driverBytes").map { text =>
      text.toLongOption.filter(_ >= 0).getOrElse {
        throw KeystateErrors.declaration(s"The option 'driverBytes' is a number, not '$text'.")
      }
    }
    KafkaSinkOptions(option("topic"), kafka, option("sinkId"), driverBytes.getOrElse(1L << 20))
  }
}
