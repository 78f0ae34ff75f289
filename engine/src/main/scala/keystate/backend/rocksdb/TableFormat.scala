package keystate.backend.rocksdb

import org.rocksdb.{BlockBasedTableConfig, BloomFilter, IndexType}

/** What run files have in common with the files of a database, because they become such files.
  *
  * Indexes and filters are partitioned into small blocks. A whole one has megabytes. If it does not
  * stay in the block cache, a lookup reads all of it from the file again, and with state larger
  * than memory every lookup does. Of a partitioned one it reads only the block for its key.
  */
private[keystate] object TableFormat {
  private final val BloomBits = 10.0

  // In bytes. The smaller the parts are, the longer is the list in which a lookup finds its part.
  private final val PartBytes = 16L * 1024

  def apply(handles: NativeHandles): BlockBasedTableConfig =
    new BlockBasedTableConfig()
      .setFilterPolicy(handles.add(new BloomFilter(BloomBits)))
      .setIndexType(IndexType.kTwoLevelIndexSearch)
      .setPartitionFilters(true)
      .setMetadataBlockSize(PartBytes)
}
