package keystate.backend

import java.nio.ByteBuffer
import java.util.Arrays

/** Entry keys of states with many entries for each key:
  * `[int32 big-endian n][n bytes: key][user key]`. The length comes first, so that no key's entries
  * begin with the bytes of another key's. Part of the file format.
  */
object GroupedKey {

  /** What the entry keys of a key begin with, and no others. */
  def prefix(key: Array[Byte]): Array[Byte] = entry(key, Array.emptyByteArray)

  /** The entry key of a user key. */
  def entry(key: Array[Byte], userKey: Array[Byte]): Array[Byte] =
    ByteBuffer
      .allocate(4 + key.length + userKey.length)
      .putInt(key.length)
      .put(key)
      .put(userKey)
      .array()

  /** Where the user key starts in an entry key. */
  def userKeyOffset(entryKey: Array[Byte]): Int = 4 + ByteBuffer.wrap(entryKey).getInt

  /** What all entry keys of an entry key's key begin with: of any bytes that begin so. */
  def prefixOf(entryKey: Array[Byte]): Array[Byte] =
    Arrays.copyOf(entryKey, userKeyOffset(entryKey))

  /** The key in an entry key, copied. */
  def keyOf(entryKey: Array[Byte]): Array[Byte] = entryKey.slice(4, userKeyOffset(entryKey))
}
