package keystate.backend.rocksdb

import org.rocksdb.{Cache, HyperClockCache, WriteBufferManager}
import org.slf4j.LoggerFactory

import keystate.backend.HeapBudget

/** The memory that all stores of a JVM share. It has one block cache, which also holds RocksDB's
  * indexes and filters; one budget for write buffers, which is part of the cache's; and two budgets
  * on the heap: for the filters of new keys and for recent entries. It exists while any store has
  * it open, with the sizes of the first store.
  */
private[keystate] final class SharedMemory private (private[rocksdb] val size: RocksDBConfig)
    extends AutoCloseable {
  import SharedMemory._

  private val handles = new NativeHandles
  private var users = 0

  // Filters are on the heap: if native memory were used after a close, a stored key could seem to be
  // new. So their share is also bounded by the heap's size.
  private val filterBytes = Math.min(size.memoryBytes / 4, Runtime.getRuntime.maxMemory / 16)
  val filters = new HeapBudget(filterBytes)

  // Not a part of the memory: it is there to spare calls into it. As large as the filters' share.
  val recent = new HeapBudget(filterBytes)

  // An eighth of the memory stays free for other uses: buffers of compactions, and the C library's
  // overhead.
  private val cacheBytes = size.memoryBytes / 8 * 7 - filterBytes

  // A lookup asks a filter of each file that may have the key, so the time to find a block in the
  // cache matters. This kind of cache has no lock, and no list to keep in order.
  val cache: Cache =
    handles.add(new HyperClockCache(cacheBytes, AnyCharge, shardBits(cacheBytes), false))
  val writeBuffers: WriteBufferManager =
    handles.add(new WriteBufferManager(size.writeBufferBytes, cache))
  handles.add(new NativeTrim)

  override def close(): Unit = SharedMemory.synchronized {
    users -= 1
    if (users == 0) {
      current = null
      handles.close()
    }
  }
}

object SharedMemory {
  // The cache itself finds out how large its entries are.
  private final val AnyCharge = 0L
  private final val ShardBytes = 32L << 20
  private final val MaxShardBits = 6

  private val log = LoggerFactory.getLogger(classOf[SharedMemory])
  private var current: SharedMemory = _

  /** Opens the shared memory for a store, which must close it once. */
  private[rocksdb] def acquire(config: RocksDBConfig): SharedMemory = synchronized {
    if (current == null) current = new SharedMemory(config)
    else if (
      current.size.memoryBytes != config.memoryBytes ||
      current.size.writeBufferBytes != config.writeBufferBytes
    )
      log.warn(
        "RocksDB's memory in this JVM stays {} bytes until no store uses it; {} is configured",
        current.size.memoryBytes,
        config.memoryBytes
      )
    current.users += 1
    current
  }

  /** The cache has 2 to this power parts, each with a lock and its share of the memory. A part must
    * have room for the largest block and many others.
    */
  private def shardBits(bytes: Long): Int =
    (63 - java.lang.Long.numberOfLeadingZeros(Math.max(bytes / ShardBytes, 1))).min(MaxShardBits)

  /** Whether any store has it open. */
  private[keystate] def isInUse: Boolean = synchronized(current != null)

  /** The bytes of native memory used by blocks, indexes, filters and write buffers. */
  def usedBytes: Long = synchronized(if (current == null) 0 else current.cache.getUsage)

  /** The limit of `usedBytes`; 0 while no store has it open. */
  def limitBytes: Long = synchronized(if (current == null) 0 else current.cacheBytes)
}
