package keystate.backend.rocksdb

/** Goes through entries of the database. */
private[rocksdb] trait StoredCursor extends AutoCloseable {

  /** The current entry's key. Null after the last entry. */
  def key: Array[Byte]

  /** The current entry's value. */
  def value: Array[Byte]
  def advance(): Unit
  override def close(): Unit
}

/** A cursor that can go on to a later key. */
private[rocksdb] trait ForwardCursor extends StoredCursor {

  /** Goes on to the first entry from `target` on, by at most so many steps, and else by a seek.
    * Stays where it is if it is there or beyond. Returns whether the steps were enough.
    */
  def goOnTo(target: Array[Byte], steps: Int): Boolean
}
