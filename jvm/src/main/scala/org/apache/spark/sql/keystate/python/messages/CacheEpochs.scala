package org.apache.spark.sql.keystate.python.messages

/** The keys that a task's worker has in its cache.
  *
  * Cache epochs bound that cache. When it has enough keys, the next message opens a new cache epoch,
  * and the worker answers with everything that it changed in the old one. A key of the old
  * cache epoch that comes again before that answer was read is ''carried'': the worker takes its
  * state from the key's old index. So the JVM never has to wait. A cache epoch is not closed before
  * the one before it was answered.
  *
  * In a batch query answers are read in another thread too, under the task's lease.
  */
private[python] final class CacheEpochs {
  private var number = 0
  private var keyIndexes = new KeyIndexes
  private var before: KeyIndexes = _
  private var readOfBefore = 0 // of how many of its key indexes the changes were read

  /** The bytes of the states that were sent in this cache epoch. */
  var cachedBytes = 0L

  /** The number of this cache epoch. */
  def current: Int = number

  /** The keys of this cache epoch. */
  def currentKeyIndexes: KeyIndexes = keyIndexes

  /** The keys of the cache epoch before; null once all its changes were read. */
  def previousKeyIndexes: KeyIndexes = before

  def keyIndexesOf(cacheEpoch: Int): KeyIndexes = if (cacheEpoch == number) keyIndexes else before

  /** For how many key indexes of the previous cache epoch the changes were read. */
  def readBefore(cacheEpoch: Int): Int =
    if (cacheEpoch == number && before != null) readOfBefore else Int.MaxValue

  /** Opens a new one. The one before this must have been answered. */
  def open(): Unit = {
    before = keyIndexes
    readOfBefore = 0
    keyIndexes = new KeyIndexes
    cachedBytes = 0
    number += 1
  }

  /** Records that changes of a cache epoch were read, for key indexes before `until`. */
  def changed(cacheEpoch: Int, until: => Int): Unit = if (cacheEpoch != number) {
    readOfBefore = until
    if (readOfBefore == before.size) before = null
  }
}
