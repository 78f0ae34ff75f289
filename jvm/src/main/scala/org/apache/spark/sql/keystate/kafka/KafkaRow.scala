package org.apache.spark.sql.keystate.kafka

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._

import keystate.errors.KeystateErrors

/** A record for Kafka; null is what it does not have. */
private[kafka] final case class KafkaRow(
    topic: String,
    partition: Integer,
    key: Array[Byte],
    value: Array[Byte],
    headers: Seq[(String, Array[Byte])]
)

/** Reads the columns that Spark's Kafka sink has too: `key`, `value`, `headers`, `topic` and
  * `partition`, of which only `value` must be there.
  */
private[kafka] final class KafkaRows(schema: StructType, topic: Option[String])
    extends Serializable {
  import KafkaRows._

  private val topics = at("topic", StringType)
  private val keys = at("key", StringType, BinaryType)
  private val values = at("value", StringType, BinaryType)
  private val headers = at("headers", Headers)
  private val partitions = at("partition", IntegerType)

  if (values < 0) throw KeystateErrors.declaration("Rows for Kafka need a column 'value'.")
  if (topic.isEmpty && topics < 0)
    throw KeystateErrors.declaration("Rows for Kafka need the option 'topic' or such a column.")

  /** The position of a column; -1 if there is none. */
  private def at(name: String, types: DataType*): Int =
    schema.fieldNames.indexOf(name) match {
      case -1 => -1
      case i if types.exists(DataType.equalsIgnoreCompatibleNullability(schema(i).dataType, _)) =>
        i
      case i =>
        throw KeystateErrors.declaration(
          s"Column '$name' for Kafka is ${schema(i).dataType.sql}: it must be " +
            s"${types.map(_.sql).mkString(" or ")}."
        )
    }

  def read(row: InternalRow): KafkaRow = {
    val to = topic.getOrElse {
      if (row.isNullAt(topics))
        throw KeystateErrors.declaration(
          "A row for Kafka has no topic: its column 'topic' is null, and there is no such option."
        )
      row.getUTF8String(topics).toString
    }
    val partition: Integer =
      if (partitions < 0 || row.isNullAt(partitions)) null else row.getInt(partitions)
    KafkaRow(to, partition, bytes(row, keys), bytes(row, values), headersOf(row))
  }

  private def bytes(row: InternalRow, at: Int): Array[Byte] =
    if (at < 0 || row.isNullAt(at)) null
    else if (schema(at).dataType == BinaryType) row.getBinary(at)
    else row.getUTF8String(at).getBytes

  private def headersOf(row: InternalRow): Seq[(String, Array[Byte])] =
    if (headers < 0 || row.isNullAt(headers)) Nil
    else {
      val array = row.getArray(headers)
      (0 until array.numElements()).map { i =>
        val header = array.getStruct(i, 2)
        (header.getUTF8String(0).toString, if (header.isNullAt(1)) null else header.getBinary(1))
      }
    }
}

private[kafka] object KafkaRows {
  private val Headers =
    ArrayType(new StructType().add("key", StringType).add("value", BinaryType))
}
