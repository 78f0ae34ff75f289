package keystate.backend.rocksdb

import java.nio.ByteBuffer
import java.util.Arrays

import org.rocksdb.{ColumnFamilyHandle, ReadOptions, RocksDB, RocksDBException, Status}

import keystate.backend.RunFormat

/** Keys that are looked up in one call of RocksDB. The call sorts them, and reads the filters of
  * many of them at the same time, so a key takes about half as long as in a single lookup.
  *
  * Of RocksDB's calls for many keys, only the one with byte buffers distinguishes a failed read
  * from a missing key. The others return null for both, which would lead to wrong data.
  */
private[rocksdb] final class KeyBatch {
  import KeyBatch._

  private val keys = slices(MaxKeys * KeyRoom, KeyRoom)
  private var valueRoom = FirstValueRoom
  private var found = slices(ValueBytes, valueRoom)
  private val families = new Array[ColumnFamilyHandle](MaxKeys)
  private val indexes = new Array[Int](MaxKeys)
  private var count = 0

  def isEmpty: Boolean = count == 0
  def isFull: Boolean = count == math.min(keys.length, found.length)

  /** Adds a key, whose value gets this index. False if the key is too long. */
  def add(
      handle: ColumnFamilyHandle,
      family: Int,
      group: Int,
      key: Array[Byte],
      index: Int
  ): Boolean = {
    val fits = RunFormat.PrefixLength + key.length <= KeyRoom
    if (fits) {
      NativeBuffer.putKey(keys(count).clear(), family, group, key)
      found(count).clear()
      families(count) = handle
      indexes(count) = index
      count += 1
    }
    fits
  }

  /** Sets the values of the keys, null for a missing key, and drops the keys. For a value that is
    * too long it calls `getLong` with the index.
    */
  def get(db: RocksDB, options: ReadOptions, values: Array[Array[Byte]])(
      getLong: Int => Unit
  ): Unit = {
    val answers = db.multiGetByteBuffers(
      options,
      Arrays.asList(families: _*).subList(0, count),
      Arrays.asList(keys: _*).subList(0, count),
      Arrays.asList(found: _*).subList(0, count)
    )
    val room = valueRoom
    var longest = 0
    var i = 0
    while (i < count) {
      val answer = answers.get(i)
      answer.status.getCode match {
        case Status.Code.Ok if answer.requiredSize > room =>
          longest = math.max(longest, answer.requiredSize)
          getLong(indexes(i))
        case Status.Code.Ok =>
          values(indexes(i)) = NativeBuffer.valueOf(found(i), answer.requiredSize)
        case Status.Code.NotFound => values(indexes(i)) = null
        case _ => throw new RocksDBException(answer.status)
      }
      i += 1
    }
    count = 0
    makeRoom(longest)
  }

  /** Makes room for longer values in later calls, which then take fewer keys. */
  private def makeRoom(length: Int): Unit =
    if (length > valueRoom && valueRoom < MaxValueRoom) {
      while (valueRoom < length && valueRoom < MaxValueRoom) valueRoom *= 2
      found = slices(ValueBytes, valueRoom)
    }
}

private[rocksdb] object KeyBatch {
  private final val MaxKeys = 4096
  private final val KeyRoom = 64
  private final val ValueBytes = 1 << 19
  private final val FirstValueRoom = 128
  private final val MaxValueRoom = 4096

  /** Below this number of keys, one call for each key is as fast. */
  final val MinKeys = 64

  // A thread looks into one store at a time. A store of its own would have it for hundreds of them.
  private val batches = ThreadLocal.withInitial[KeyBatch](() => new KeyBatch)

  /** The current thread's batch, emptied. */
  def ofThread(): KeyBatch = {
    val batch = batches.get()
    batch.count = 0
    batch
  }

  private def slices(bytes: Int, length: Int): Array[ByteBuffer] = {
    val all = ByteBuffer.allocateDirect(bytes)
    Array.tabulate(bytes / length)(i => all.slice(i * length, length))
  }
}
