package keystate.backend.rocksdb

/** A set of hashes that can give false positives, but no false negatives.
  *
  * It is a blocked Bloom filter: all bits of a hash are in one small block, so that a lookup reads
  * memory in one place (F. Putze, P. Sanders, J. Singler: Cache-, Hash- and Space-Efficient Bloom
  * Filters, 2007). As in J. Apple's split block Bloom filters (2022), a hash has one bit in each
  * word of its block.
  *
  * Filled to its capacity it has 2.7 % false positives. It accepts more hashes: with twice its
  * capacity it has 16 %.
  */
private[rocksdb] final class BlockedBloomFilter(val capacity: Long) {
  import BlockedBloomFilter._

  private val blocks = blocksFor(capacity)
  private val words = new Array[Long](blocks * Words)

  def bytes: Long = words.length * 8L

  /** Adds a hash. All bits of the hash must be random. */
  def add(hash: Long): Unit = {
    val block = blockOf(hash)
    var word = 0
    while (word < Words) {
      words(block + word) |= bit(hash, word)
      word += 1
    }
  }

  def mayHave(hash: Long): Boolean = {
    val block = blockOf(hash)
    var word = 0
    while (word < Words && (words(block + word) & bit(hash, word)) != 0) word += 1
    word == Words
  }

  /** The upper half of the hash, scaled to the number of blocks. */
  private def blockOf(hash: Long): Int = ((hash >>> 32) * blocks >>> 32).toInt * Words
}

private[rocksdb] object BlockedBloomFilter {
  private final val Words = 4
  private final val BitsPerHash = 8
  private final val HashesPerBlock = Words * 64 / BitsPerHash
  private final val MaxBlocks = Int.MaxValue / 8 / Words

  /** The bytes that a filter takes. */
  def bytesFor(capacity: Long): Long = blocksFor(capacity).toLong * Words * 8

  private def blocksFor(capacity: Long): Int =
    (1 + (capacity - 1) / HashesPerBlock).min(MaxBlocks).toInt

  /** Six bits of the lower half of the hash for each word; a shift takes the lowest six. */
  private def bit(hash: Long, word: Int): Long = 1L << (hash >>> (6 * word))
}
