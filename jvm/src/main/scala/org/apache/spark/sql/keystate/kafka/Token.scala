package org.apache.spark.sql.keystate.kafka

import java.util.Collections.singletonMap

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.{
  Admin, ListConsumerGroupOffsetsOptions, ListConsumerGroupOffsetsSpec
}
import org.apache.kafka.clients.consumer.OffsetAndMetadata

/** What a transaction says of itself: the last micro-batch that its transactional id published. It is
  * the offset, with metadata, of the consumer group with the same name. No consumer is in that
  * group: an offset is the only thing besides records that is written with a transaction.
  */
private[kafka] final case class Token(batch: Long, attempt: String) {
  def offset: OffsetAndMetadata = new OffsetAndMetadata(batch, attempt)
}

private[kafka] object Token {

  /** Reads it, without those of transactions that are open: it waits for their end. */
  def read(options: KafkaSinkOptions, id: String): Option[Token] = {
    val admin = Admin.create(options.ofAdmin)
    try {
      val stable = new ListConsumerGroupOffsetsOptions().requireStable(true)
      val asked = singletonMap(id, new ListConsumerGroupOffsetsSpec)
      val found = admin.listConsumerGroupOffsets(asked, stable).partitionsToOffsetAndMetadata(id)
      // The topic is that of the first record, so there may be several.
      found.get.asScala.values.filter(_ != null).maxByOption(_.offset).map { at =>
        Token(at.offset, at.metadata)
      }
    } finally admin.close()
  }
}
