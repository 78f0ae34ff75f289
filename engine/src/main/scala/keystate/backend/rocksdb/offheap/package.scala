package keystate.backend.rocksdb

/** RocksDB's native objects, and memory outside the heap for calls of it. Not public. */
package object offheap
