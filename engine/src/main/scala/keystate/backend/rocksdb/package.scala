package keystate.backend

/** The backend `rocksdb`, which keeps state in RocksDB, and so more of it than fits into memory. It
  * relies on the `rocksdbjni` that comes with Spark. Besides the database here are the changes of
  * the open transaction, filters that know which keys are not stored, cursors that read with fewer
  * lookups and seeks, and native memory. Not public.
  */
package object rocksdb
