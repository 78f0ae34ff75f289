package org.apache.spark.sql.keystate

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.kafka.KafkaSink

/** The format `keystate-kafka`. Spark makes it by its class name, from `META-INF/services`, for every
  * lookup of a format: so it names no class of Kafka, which may not be there.
  */
class KafkaSinkProvider extends TableProvider with DataSourceRegister {
  override def shortName(): String = "keystate-kafka"
  override def supportsExternalMetadata(): Boolean = true
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = new StructType
  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: JMap[String, String]
  ): Table = {
    try Class.forName("org.apache.kafka.clients.producer.KafkaProducer")
    catch { case e: ClassNotFoundException => throw KeystateErrors.kafkaMissing(shortName(), e) }
    new KafkaSink(properties.asScala.toMap)
  }
}
