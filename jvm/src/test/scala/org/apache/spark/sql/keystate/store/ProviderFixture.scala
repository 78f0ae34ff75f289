package org.apache.spark.sql.keystate.store

import java.util.UUID

import scala.util.Using

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{IntegerType, LongType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

import keystate.config.Settings
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

/** Providers without a query around them. */
trait ProviderFixture {
  protected val keySchema: StructType = new StructType().add("name", StringType).add("n", LongType)
  protected val valueSchema: StructType = new StructType().add("value", IntegerType)

  protected def backend: String = "hashmap"

  protected def newFolder(): String = TestCheckpoints.newFolder()

  protected def newProvider(
      folder: String = newFolder(),
      spec: KeyStateEncoderSpec = NoPrefixKeyStateEncoderSpec(keySchema),
      columnFamilies: Boolean = true,
      conf: Map[String, String] = Map.empty,
      extraOptions: Map[String, String] = Map.empty,
      hadoop: Map[String, String] = Map.empty
  ): KeyGroupStateStoreProvider = {
    val hadoopConf = new Configuration
    hadoopConf.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID.toString)
    hadoopConf.set(Settings.LockTimeoutMs.key, "1000")
    hadoopConf.set(Settings.Backend.key, backend)
    // With the backend `auto` no state fits on the heap.
    hadoopConf.set(Settings.HeapShare.key, "1e-9")
    hadoop.foreach { case (key, value) => hadoopConf.set(key, value) }
    val sqlConf = new SQLConf
    conf.foreach { case (key, value) => sqlConf.setConfString(key, value) }
    val provider = new KeyGroupStateStoreProvider
    provider.init(
      StateStoreId(folder, 0, 0),
      keySchema,
      valueSchema,
      spec,
      columnFamilies,
      new StateStoreConf(sqlConf, extraOptions),
      hadoopConf,
      useMultipleValuesPerKey = false,
      stateSchemaProvider = None
    )
    provider
  }

  protected def withProvider[T](provider: KeyGroupStateStoreProvider)(
      body: KeyGroupStateStoreProvider => T
  ): T = Using.resource(provider)(body)((provider: KeyGroupStateStoreProvider) => provider.close())

  protected def row(schema: StructType, values: Any*): UnsafeRow =
    UnsafeProjection
      .create(schema)(InternalRow.fromSeq(values.map {
        case text: String => UTF8String.fromString(text)
        case other => other
      }))
      .copy()

  protected def key(name: String, n: Long): UnsafeRow = row(keySchema, name, n)
  protected def value(value: Int): UnsafeRow = row(valueSchema, value)

  protected def pairs(iterator: Iterator[UnsafeRowPair]): Seq[((String, Long), Int)] =
    iterator.map { pair =>
      (pair.key.getString(0), pair.key.getLong(1)) -> pair.value.getInt(0)
    }.toVector
}
