package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state.{
  StateStore, StateStoreIterator, UnsafeRowPair
}

/** Reads lists of values in stores of Spark's own providers. */
private[keystate] object SparkLists {

  /** All values of a family, grouped by key. */
  def entries(store: StateStore, family: String): StateStoreIterator[UnsafeRowPair] =
    store.iteratorWithMultiValues(family)
}
