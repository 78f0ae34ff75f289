package keystate.backend

import java.nio.ByteBuffer

/** Entry keys of states with many entries a key: `[int32 big-endian n][n bytes: key][user key]`. */
object GroupedKey {

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

  /** Removes all entries of a key; returns how many there were. */
  def clear(backend: StateEntries, family: Int, group: Int, key: Array[Byte]): Long = {
    val entries = backend.scan(family, group, prefix(key), null)
    try {
      var removed = 0L
      entries.foreach { entry =>
        backend.remove(family, group, entry.key)
        removed += 1
      }
      removed
    } finally entries.close()
  }

  /** The key of an entry key. */
  def keyOf(entryKey: Array[Byte]): Array[Byte] = entryKey.slice(4, userKeyOffset(entryKey))
}
