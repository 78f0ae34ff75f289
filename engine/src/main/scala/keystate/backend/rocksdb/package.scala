package keystate.backend

/** The backend `rocksdb`, which keeps state in RocksDB, and so more of it than fits into memory. It
  * relies on the `rocksdbjni` that comes with Spark. Not public.
  */
package object rocksdb
