package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state.StateStoreProvider

/** Spark 4.2's `StateStoreProvider`. Its maintenance is `doMaintenance`. */
private[keystate] trait StateStoreProviderShim extends StateStoreProvider
