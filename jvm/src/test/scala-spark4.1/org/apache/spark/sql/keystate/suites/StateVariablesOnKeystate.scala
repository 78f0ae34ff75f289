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
      useColumnFamilies: Boolean
  ): RocksDBStateStoreProvider =
    inDisguise(storeId, keyStateEncoderSpec, sqlConf, conf, useColumnFamilies)
}

private[suites] final class ProviderInDisguise extends DisguisedProvider {
  override def getStore(version: Long, id: Option[String]): StateStore =
    provider.getStore(version, id)
}
