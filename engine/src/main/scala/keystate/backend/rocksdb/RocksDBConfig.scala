package keystate.backend.rocksdb

import keystate.config.Settings
import keystate.errors.KeystateErrors

/** Settings of the RocksDB backend.
  *
  * @param memoryBytes
  *   how much all stores of a JVM together may take for blocks, indexes, filters and write buffers
  * @param writeBufferBytes
  *   how much of that write buffers may take
  */
final case class RocksDBConfig(
    private[rocksdb] val predefined: PredefinedOptions,
    memoryBytes: Long,
    writeBufferBytes: Long
)

object RocksDBConfig {
  final val Prefix = "spark.keystate.rocksdb."
  final val Predefined = "predefinedOptions"
  final val MemoryMB = "memoryMB"
  final val WriteBufferRatio = "writeBufferRatio"

  private val known = Set(Predefined, MemoryMB, WriteBufferRatio)

  /** Reads the settings from a backend's options. Throws for an unknown or invalid option.
    *
    * @param prefix
    *   the start of the options' full names, for messages
    */
  def parse(options: Map[String, String], prefix: String): RocksDBConfig = {
    options.keys.find(!known.contains(_)).foreach { name =>
      throw KeystateErrors.unknownSetting(prefix + name, known.toSeq.sorted.map(prefix + _))
    }
    val get = (key: String) => options.get(key.stripPrefix(prefix))
    val bytes = Settings.RocksDBMemoryMB.of(get).toLong << 20
    val ratio = Settings.RocksDBWriteBufferRatio.of(get)
    val name = Settings.RocksDBPredefinedOptions.of(get)
    val predefined = PredefinedOptions.all.find(_.name == name).get
    RocksDBConfig(predefined, bytes, (bytes * ratio).toLong)
  }
}
