package keystate.backend.rocksdb

import org.rocksdb.{BlockBasedTableConfig, ColumnFamilyOptions, DBOptions}

/** Tuning for kinds of disks; the names and what they set are those of Flink's predefined options,
  * but for what the shared memory decides: the size of the block cache.
  */
private[rocksdb] sealed abstract class PredefinedOptions(val name: String) {
  def apply(
      options: DBOptions,
      families: ColumnFamilyOptions,
      tables: BlockBasedTableConfig
  ): Unit
}

private[rocksdb] object PredefinedOptions {

  case object Default extends PredefinedOptions("DEFAULT") {
    override def apply(
        options: DBOptions,
        families: ColumnFamilyOptions,
        tables: BlockBasedTableConfig
    ): Unit = ()
  }

  case object SpinningDisk extends PredefinedOptions("SPINNING_DISK_OPTIMIZED") {
    override def apply(
        options: DBOptions,
        families: ColumnFamilyOptions,
        tables: BlockBasedTableConfig
    ): Unit = {
      options.setMaxBackgroundJobs(4).setMaxOpenFiles(-1)
      families.setLevelCompactionDynamicLevelBytes(true)
      ()
    }
  }

  /** For executors with much memory: large files and large blocks. */
  case object SpinningDiskHighMemory extends PredefinedOptions("SPINNING_DISK_OPTIMIZED_HIGH_MEM") {
    override def apply(
        options: DBOptions,
        families: ColumnFamilyOptions,
        tables: BlockBasedTableConfig
    ): Unit = {
      options.setMaxBackgroundJobs(4).setMaxOpenFiles(-1)
      families
        .setLevelCompactionDynamicLevelBytes(true)
        .setTargetFileSizeBase(256L << 20)
        .setMaxBytesForLevelBase(1L << 30)
        .setWriteBufferSize(64L << 20)
        .setMinWriteBufferNumberToMerge(3)
        .setMaxWriteBufferNumber(4)
      tables.setBlockSize(128L << 10)
      ()
    }
  }

  case object FlashSsd extends PredefinedOptions("FLASH_SSD_OPTIMIZED") {
    override def apply(
        options: DBOptions,
        families: ColumnFamilyOptions,
        tables: BlockBasedTableConfig
    ): Unit = {
      options.setMaxBackgroundJobs(4).setMaxOpenFiles(-1)
      ()
    }
  }

  val all: Seq[PredefinedOptions] = Seq(Default, SpinningDisk, SpinningDiskHighMemory, FlashSsd)
}
