package keystate.backend.rocksdb

import org.rocksdb.{BlockBasedTableConfig, BloomFilter, IndexType}

/** What the files of a database and run files, which become files of a database, have in common.
  *
  * Indexes and filters are cut into small blocks. A whole one has megabytes: of each that does not
  * stay in the block cache, a lookup would read all from the file again, and with state larger than
  * memory that is every lookup. Of a partitioned one it reads the block for its key.
  */
private[keystate] object TableFormat {
  private final val BloomBits = 10.0

  def apply(handles: NativeHandles): BlockBasedTableConfig =
    new BlockBasedTableConfig()
      .setFilterPolicy(handles.add(new BloomFilter(BloomBits)))
      .setIndexType(IndexType.kTwoLevelIndexSearch)
      .setPartitionFilters(true)
}
