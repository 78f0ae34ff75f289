package keystate.backend

/** The backend in RocksDB, `rocksdb`, which keeps more state than memory has room for. It relies on
  * the `rocksdbjni` that comes with Spark. Not public.
  */
package object rocksdb
