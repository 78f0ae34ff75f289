package org.apache.spark.sql.keystate.shim

import org.apache.spark.sql.execution.streaming.state.{
  StateStore, StateStoreIterator, UnsafeRowPair
}

/** Reads lists of values in stores of Spark's own providers. */
private[keystate] object SparkLists {

  /** All values of a family, grouped by key. Relies on Spark 4.1's `iterator` to return each key
    * once, with the first of its values.
    */
  def entries(store: StateStore, family: String): StateStoreIterator[UnsafeRowPair] = {
    val firsts = store.iterator(family)
    val pair = new UnsafeRowPair
    val all = firsts.flatMap { first =>
      val key = first.key.copy()
      store.valuesIterator(key, family).map(pair.withRows(key, _))
    }
    new StateStoreIterator(all, () => firsts.close())
  }
}
