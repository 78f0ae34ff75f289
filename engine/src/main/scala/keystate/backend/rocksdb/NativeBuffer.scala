package keystate.backend.rocksdb

import java.nio.ByteBuffer

import keystate.backend.RunFormat

/** Off-heap bytes for calls of RocksDB, reused from call to call. */
private[rocksdb] final class NativeBuffer {
  private var buffer = ByteBuffer.allocateDirect(512)

  /** The buffer, to be filled from its beginning, with room for at least `capacity` bytes. */
  def cleared(capacity: Int): ByteBuffer = {
    if (buffer.capacity < capacity)
      buffer = ByteBuffer.allocateDirect(Math.max(capacity, 2 * buffer.capacity))
    buffer.clear()
  }

  def cleared(): ByteBuffer = buffer.clear()

  /** A key, as runs and the database have it. */
  def key(family: Int, group: Int, key: Array[Byte]): ByteBuffer =
    NativeBuffer.putKey(cleared(RunFormat.PrefixLength + key.length), family, group, key)

  /** The prefix of all keys of a family's group; it sorts before the first of these keys. */
  def prefix(prefix: Int): ByteBuffer = cleared(RunFormat.PrefixLength).putInt(prefix).flip()

  /** A value in the stored form of runs and the database. Null marks a removal. */
  def value(value: Array[Byte]): ByteBuffer =
    if (value == null) cleared(1).put(RunFormat.Removed).flip()
    else cleared(1 + value.length).put(RunFormat.Put).put(value).flip()
}

private[rocksdb] object NativeBuffer {

  /** Fills an empty buffer with a key, as runs and the database have it. */
  def putKey(buffer: ByteBuffer, family: Int, group: Int, key: Array[Byte]): ByteBuffer =
    buffer.putShort(family.toShort).putShort(group.toShort).put(key).flip()

  /** The value that a buffer has from its beginning. Null if it says that the entry was removed. */
  def valueOf(buffer: ByteBuffer, length: Int): Array[Byte] =
    if (buffer.get(0) == RunFormat.Removed) null
    else {
      val bytes = new Array[Byte](length - 1)
      buffer.get(1, bytes)
      bytes
    }
}
