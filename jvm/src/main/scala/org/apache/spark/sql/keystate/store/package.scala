package org.apache.spark.sql.keystate

/** Keystate as a `StateStoreProvider` of Spark: the contract of `StateStore`, the encodings of
  * Spark's own operators, and the lease under which a task works with a backend. Relies on Spark's
  * state store API and on the encoders of its RocksDB provider.
  */
package object store
