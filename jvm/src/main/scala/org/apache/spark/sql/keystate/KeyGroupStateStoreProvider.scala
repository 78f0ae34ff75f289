package org.apache.spark.sql.keystate

import org.apache.spark.sql.keystate.store.KeyGroupProvider

/** Keystate's state store provider. Set it as `spark.sql.streaming.stateStore.providerClass`. Spark
  * makes it by its class name, which the offset logs of queries hold.
  */
class KeyGroupStateStoreProvider extends KeyGroupProvider
