package keystate.backend

import java.nio.ByteBuffer
import java.util.Arrays

/** Entry keys of states with many entries for each key:
  * `[int32 big-endian n][n bytes: key][user key]`. The length comes first, so that no key's entries
  * begin with the bytes of another key's. Part of the file format.
  */
object GroupedKey {

  /** The prefix that a key's entry keys have, and no other entry keys. */
  def prefix(key: Array[Byte]): Array[Byte] = entry(key, Array.emptyByteArray)

  /** The entry key of a user key. */
  def entry(key: Array[Byte], userKey: Array[Byte]): Array[Byte] =
    ByteBuffer
      .allocate(4 + key.length + userKey.length)
      .putInt(key.length)
      .put(key)
      .put(userKey)
      .array()

  /** The offset of the user key in an entry key. */
  def userKeyOffset(entryKey: Array[Byte]): Int = 4 + ByteBuffer.wrap(entryKey).getInt

  /** The prefix shared by all entry keys of this entry key's key. The argument may be any bytes
    * that start with such a prefix.
    */
  def prefixOf(entryKey: Array[Byte]): Array[Byte] =
    Arrays.copyOf(entryKey, userKeyOffset(entryKey))

  /** The key in an entry key, copied. */
  def keyOf(entryKey: Array[Byte]): Array[Byte] = entryKey.slice(4, userKeyOffset(entryKey))
}
