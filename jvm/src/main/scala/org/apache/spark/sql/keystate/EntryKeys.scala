package org.apache.spark.sql.keystate

import java.nio.ByteBuffer

/** Entry keys of states with many entries a key: `[int32 big-endian n][n bytes: key][user key]`. */
private[keystate] object EntryKeys {

  /** What all entries of a key start with. */
  def prefix(key: Array[Byte]): Array[Byte] = entry(key, Array.emptyByteArray)

  def entry(key: Array[Byte], userKey: Array[Byte]): Array[Byte] =
    ByteBuffer
      .allocate(4 + key.length + userKey.length)
      .putInt(key.length)
      .put(key)
      .put(userKey)
      .array()

  /** Where the user key starts in an entry key. */
  def userKeyOffset(entryKey: Array[Byte]): Int = 4 + ByteBuffer.wrap(entryKey).getInt
}
