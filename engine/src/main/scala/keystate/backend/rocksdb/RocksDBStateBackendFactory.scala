package keystate.backend.rocksdb

import java.io.File

import keystate.backend.{KeyedStateBackend, StateBackendFactory}

/** Makes the backend that the setting calls `rocksdb`. */
final class RocksDBStateBackendFactory extends StateBackendFactory {
  private var config: RocksDBConfig = _

  override def configure(options: Map[String, String]): Unit =
    config = RocksDBConfig.parse(options, RocksDBConfig.Prefix)

  override def create(maxParallelism: Int, newFolder: () => File): KeyedStateBackend =
    new EmbeddedRocksDBStateBackend(maxParallelism, newFolder(), config)
}
