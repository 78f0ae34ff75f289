package org.apache.spark.sql.keystate.suites

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

import keystate.config.Settings
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

/** Suites of state variables, which name Spark's RocksDB provider by its type. */
private[suites] trait DisguisedProviders extends StateVariableSuiteBase with OnKeystate {
  protected def inDisguise(
      storeId: StateStoreId,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      sqlConf: SQLConf,
      conf: Configuration,
      useColumnFamilies: Boolean,
      schemaProvider: StateSchemaProvider = new TestStateSchemaProvider
  ): RocksDBStateStoreProvider = {
    conf.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID.toString)
    conf.set(Settings.Backend.key, backend)
    val provider = new ProviderInDisguise
    provider.init(
      storeId,
      schemaForKeyRow,
      schemaForValueRow,
      keyStateEncoderSpec,
      useColumnFamilies,
      new StateStoreConf(sqlConf),
      conf,
      useMultipleValuesPerKey,
      Some(schemaProvider)
    )
    provider
  }
}

/** Our provider where a method of Spark's tests has its RocksDB provider as the result's type. */
private[suites] abstract class DisguisedProvider extends RocksDBStateStoreProvider {
  protected val provider = new KeyGroupStateStoreProvider

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConfs: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = provider.init(
    stateStoreId,
    keySchema,
    valueSchema,
    keyStateEncoderSpec,
    useColumnFamilies,
    storeConfs,
    hadoopConf,
    useMultipleValuesPerKey,
    stateSchemaProvider
  )

  override def stateStoreId: StateStoreId = provider.stateStoreId
  override def getReadStore(version: Long, id: Option[String]): StateStore =
    provider.getReadStore(version, id)
  override def doMaintenance(): Unit = provider.doMaintenance()
  override def close(): Unit = provider.close()
}
