package keystate.backend.rocksdb

import org.rocksdb.{BlockBasedTableConfig, ColumnFamilyOptions, DBOptions}

/** Tuning for kinds of disks. Names and values are those of Flink's predefined options. Only the
  * size of the block cache is not set, because the shared memory decides it.
  */
private[rocksdb] final class PredefinedOptions private (
    val name: String,
    set: (DBOptions, ColumnFamilyOptions, BlockBasedTableConfig) => Unit
) {
  def apply(
      options: DBOptions,
      families: ColumnFamilyOptions,
      tables: BlockBasedTableConfig
  ): Unit = set(options, families, tables)
}

private[rocksdb] object PredefinedOptions {
  val Default = new PredefinedOptions("DEFAULT", (_, _, _) => ())

  val SpinningDisk: PredefinedOptions = optimized("SPINNING_DISK_OPTIMIZED") { (families, _) =>
    families.setLevelCompactionDynamicLevelBytes(true): Unit
  }

  /** For executors with much memory: large files and large blocks. */
  val SpinningDiskHighMemory: PredefinedOptions =
    optimized("SPINNING_DISK_OPTIMIZED_HIGH_MEM") { (families, tables) =>
      families
        .setLevelCompactionDynamicLevelBytes(true)
        .setTargetFileSizeBase(256L << 20)
        .setMaxBytesForLevelBase(1L << 30)
        .setWriteBufferSize(64L << 20)
        .setMinWriteBufferNumberToMerge(3)
        .setMaxWriteBufferNumber(4)
      tables.setBlockSize(128L << 10): Unit
    }

  val FlashSsd: PredefinedOptions = optimized("FLASH_SSD_OPTIMIZED")((_, _) => ())

  val all: Seq[PredefinedOptions] = Seq(Default, SpinningDisk, SpinningDiskHighMemory, FlashSsd)

  /** Options that set what all but the default set, and then `more`. */
  private def optimized(
      name: String
  )(more: (ColumnFamilyOptions, BlockBasedTableConfig) => Unit): PredefinedOptions =
    new PredefinedOptions(
      name,
      (options, families, tables) => {
        options.setMaxBackgroundJobs(4).setMaxOpenFiles(-1)
        more(families, tables)
      }
    )
}
