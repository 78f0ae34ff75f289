package keystate.backend.rocksdb

import org.rocksdb.{BlockBasedTableConfig, BloomFilter, IndexType}

/** The settings that run files share with the files of a database, because run files become such
  * files.
  *
  * Indexes and filters are partitioned into small blocks. A whole index has megabytes. If it does
  * not stay in the block cache, a lookup reads all of it from the file again, and with state larger
  * than memory every lookup does. From a partitioned index a lookup reads only the block for its
  * key.
  */
private[keystate] object TableFormat {
  private final val BloomBits = 10.0

  // In bytes. Smaller parts make a longer list of parts, which each lookup searches.
  private final val PartBytes = 16L * 1024

  def apply(handles: NativeHandles): BlockBasedTableConfig =
    new BlockBasedTableConfig()
      .setFilterPolicy(handles.add(new BloomFilter(BloomBits)))
      .setIndexType(IndexType.kTwoLevelIndexSearch)
      .setPartitionFilters(true)
      .setMetadataBlockSize(PartBytes)
}
