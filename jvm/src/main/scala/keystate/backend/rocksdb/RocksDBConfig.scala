package keystate.backend.rocksdb

/** Settings of the RocksDB backend.
  *
  * @param memoryBytes
  *   what all stores of a JVM together may take for blocks, indexes, filters and write buffers
  * @param writeBufferBytes
  *   what of it write buffers may take
  */
private[rocksdb] final case class RocksDBConfig(
    predefined: PredefinedOptions,
    memoryBytes: Long,
    writeBufferBytes: Long
)

private[rocksdb] object RocksDBConfig {
  final val Predefined = "predefinedOptions"
  final val MemoryMB = "memoryMB"
  final val WriteBufferRatio = "writeBufferRatio"

  private val known = Set(Predefined, MemoryMB, WriteBufferRatio)

  /** @param prefix
    *   of the options' full names, for messages
    */
  def parse(options: Map[String, String], prefix: String): RocksDBConfig = {
    def bad(name: String, what: String) = throw new IllegalArgumentException(
      s"$prefix$name must be $what, and is '${options(name)}'"
    )
    options.keys.find(!known.contains(_)).foreach { name =>
      throw new IllegalArgumentException(
        s"$prefix$name is not a setting of the RocksDB backend: it has " +
          known.toSeq.sorted.map(prefix + _).mkString(", ")
      )
    }
    val memory = options
      .get(MemoryMB)
      .fold(256L)(_.toLongOption.filter(_ > 0).getOrElse(bad(MemoryMB, "a positive number")))
    val ratio = options
      .get(WriteBufferRatio)
      .fold(0.5)(
        _.toDoubleOption
          .filter(r => 0 < r && r < 1)
          .getOrElse(bad(WriteBufferRatio, "between 0 and 1"))
      )
    val predefined = options
      .get(Predefined)
      .fold[PredefinedOptions](PredefinedOptions.Default)(name =>
        PredefinedOptions.all
          .find(_.name == name)
          .getOrElse(
            bad(Predefined, "one of " + PredefinedOptions.all.map(_.name).mkString(", "))
          )
      )
    val bytes = Math.multiplyExact(memory, 1L << 20)
    RocksDBConfig(predefined, bytes, (bytes * ratio).toLong)
  }
}
