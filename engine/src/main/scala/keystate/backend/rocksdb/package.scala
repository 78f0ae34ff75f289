package keystate.backend

/** The backend `rocksdb`, which keeps state in RocksDB, and so can hold more state than memory. It
  * uses the `rocksdbjni` of Spark. The package has the database, the open transaction's changes,
  * filters that recognise missing keys, cursors that save lookups and seeks, and native memory. Not
  * public.
  */
package object rocksdb
