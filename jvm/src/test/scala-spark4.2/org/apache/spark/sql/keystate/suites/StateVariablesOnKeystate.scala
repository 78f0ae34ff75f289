package org.apache.spark.sql.keystate.suites

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf

trait StateVariablesOnKeystate extends DisguisedProviders {
  override protected def newStoreProviderWithStateVariable(
      storeId: StateStoreId,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      sqlConf: SQLConf,
      conf: Configuration,
      useColumnFamilies: Boolean,
      schemaProvider: Option[StateSchemaProvider]
  ): RocksDBStateStoreProvider =
    inDisguise(
      storeId,
      keyStateEncoderSpec,
      sqlConf,
      conf,
      useColumnFamilies,
      schemaProvider.getOrElse(new TestStateSchemaProvider)
    )
}

private[suites] final class ProviderInDisguise extends DisguisedProvider {
  override def getStore(
      version: Long,
      id: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = provider.getStore(version, id, forceSnapshotOnCommit, loadEmpty)
}
