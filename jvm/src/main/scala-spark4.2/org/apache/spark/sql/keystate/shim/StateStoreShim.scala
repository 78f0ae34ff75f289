package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state.StateStore

/** Spark 4.2's `StateStore`. Keystate has all its methods itself. */
private[keystate] trait StateStoreShim extends StateStore
