package keystate.backend.rocksdb

/** How the entries of the database are read with fewer lookups and seeks: what the last scans found
  * is remembered, and cursors go along where keys are asked for in their order.
  */
package object cursor
