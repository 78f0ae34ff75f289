package keystate.kafka

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.streaming.DataStreamWriter

/** Writes each result into Kafka once, as consumers with `isolation.level=read_committed` see it: the
  * format `keystate-kafka`. The rows have the columns of Spark's Kafka sink. The session needs
  * Spark's package for Kafka.
  *
  * @param servers
  *   the brokers, as `host:port,...`
  * @param topic
  *   the topic; None if the rows have a column `topic`
  * @param options
  *   other options: those of Spark's sink, as `kafka.compression.type`, and `sinkId`
  */
final case class ExactlyOnceSink(
    servers: String,
    topic: Option[String] = None,
    options: Map[String, String] = Map.empty
) {

  /** Start the returned writer: it needs a `checkpointLocation`, and may have a trigger. */
  def writer[T](data: Dataset[T]): DataStreamWriter[T] = topic
    .foldLeft(data.writeStream.format("keystate-kafka").options(options))(_.option("topic", _))
    .option("kafka.bootstrap.servers", servers)
}
