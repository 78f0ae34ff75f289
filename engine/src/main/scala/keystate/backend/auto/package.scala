package keystate.backend

/** The backend `auto`: state on the heap while there is room, else in RocksDB. Not public. */
package object auto
