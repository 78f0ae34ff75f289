package keystate.backend.rocksdb

/** What the open transaction has changed of one key group, on the heap, on top of the database; and
  * what the last transactions wrote, which is kept for a while.
  */
package object changes
