package org.apache.spark.sql.keystate.suites

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

import keystate.settings.Settings
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

/** These suites name Spark's RocksDB provider by its type. */
trait StateVariablesOnKeystate extends StateVariableSuiteBase with OnKeystate {
  override protected def newStoreProviderWithStateVariable(
      storeId: StateStoreId,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      sqlConf: SQLConf,
      conf: Configuration,
      useColumnFamilies: Boolean,
      schemaProvider: Option[StateSchemaProvider]
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
      schemaProvider.orElse(Some(new TestStateSchemaProvider))
    )
    provider
  }
}

/** Our provider where a method of Spark's tests has its RocksDB provider as the result's type. */
private final class ProviderInDisguise extends RocksDBStateStoreProvider {
  private val provider = new KeyGroupStateStoreProvider

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
  override def getStore(
      version: Long,
      id: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = provider.getStore(version, id, forceSnapshotOnCommit, loadEmpty)
  override def getReadStore(version: Long, id: Option[String]): StateStore =
    provider.getReadStore(version, id)
  override def doMaintenance(): Unit = provider.doMaintenance()
  override def close(): Unit = provider.close()
}
