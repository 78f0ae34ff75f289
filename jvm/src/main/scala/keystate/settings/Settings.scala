package keystate.settings

import keystate.errors.BadSettingException
import keystate.keygroup.KeyGroups

/** A setting of Keystate.
  *
  * @param key
  *   its full name
  * @param default
  *   what counts where it is not set; None if there is no default, or it depends on the query
  * @param allowed
  *   which values it takes, for messages: it follows "must be"
  * @param parse
  *   the value that a text says; None if it is not allowed
  */
final class Setting[T] private[settings] (
    val key: String,
    val default: Option[T],
    val allowed: String,
    parse: String => Option[T]
) {

  /** The value in some settings; None if it is not set there.
    *
    * @param get
    *   the text of a setting, by its name
    * @throws BadSettingException
    *   the value is not allowed
    */
  def in(get: String => Option[String]): Option[T] =
    get(key).map(text =>
      parse(text.trim).getOrElse(throw new BadSettingException(key, text, allowed))
    )

  /** The value in some settings, or else the default. Only for settings that have one. */
  def of(get: String => Option[String]): T = in(get).orElse(default).get
}

/** All settings of Keystate, in the order of README's table. What reads a setting reads it here. */
object Settings {

  // Users' settings name these classes, and the checkpoint's offset log holds the provider's: the
  // names never change.
  final val ProviderClass = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"
  final val FileManagerClass = "org.apache.spark.sql.keystate.KeystateCheckpointFileManager"
  final val ExtensionClass = "org.apache.spark.sql.keystate.KeystateExtension"

  /** The number of key groups. Fixed for a checkpoint's life. */
  val MaxParallelism: Setting[Int] =
    whole("spark.keystate.maxParallelism", None, 1, KeyGroups.MaxMaxParallelism)

  /** Where working state is kept: the name of a backend, or of a class of the user's. */
  val Backend: Setting[String] = new Setting(
    "spark.keystate.backend",
    Some("hashmap"),
    "'hashmap', 'rocksdb' or the name of a class",
    text => Option.when(text.nonEmpty)(text)
  )

  /** The native memory that all stores of an executor share, in MiB. */
  val RocksDBMemoryMB: Setting[Int] =
    whole("spark.keystate.rocksdb.memoryMB", Some(256), 1, Int.MaxValue)

  /** How much of that memory write buffers may take. */
  val RocksDBWriteBufferRatio: Setting[Double] = new Setting(
    "spark.keystate.rocksdb.writeBufferRatio",
    Some(0.5),
    "a number between 0 and 1",
    _.toDoubleOption.filter(ratio => 0 < ratio && ratio < 1)
  )

  /** Tuning of RocksDB for a kind of disk. */
  val RocksDBPredefinedOptions: Setting[String] = oneOf(
    "spark.keystate.rocksdb.predefinedOptions",
    "DEFAULT",
    "SPINNING_DISK_OPTIMIZED",
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
    "FLASH_SSD_OPTIMIZED"
  )

  /** Whether a restart with another `spark.sql.shuffle.partitions` rescales the query. */
  val OnRestart: Setting[String] =
    oneOf("spark.keystate.rescale.onRestart", "auto", "off")

  /** Whether a state that the function no longer declares stays in the checkpoint. */
  val RemovedStates: Setting[String] = oneOf("spark.keystate.removedStates", "keep", "purge")

  /** When a Python worker knows the state of so many keys, it returns their changes and forgets
    * them.
    */
  val MaxCachedKeys: Setting[Int] =
    whole("spark.keystate.worker.maxCachedKeys", Some(200000), 1, Int.MaxValue)

  /** How many entries of a list or map are sent to the worker ahead. Of longer ones, and those
    * above 1 MB, it asks for pages.
    */
  val InlineEntries: Setting[Int] =
    whole("spark.keystate.worker.inlineEntries", Some(1000), 0, Int.MaxValue)

  /** Whether to compare the subtasks' broadcast states after each micro-batch that changed them. */
  val BroadcastCheck: Setting[Boolean] = new Setting(
    "spark.keystate.broadcast.check",
    Some(false),
    "'true' or 'false'",
    _.toBooleanOption
  )

  /** Which classes pickles of operator state and of sources may name besides plain data. Python
    * reads it.
    */
  val PickleAllow: Setting[String] = new Setting(
    "spark.keystate.pickle.allow",
    None,
    "names such as 'shop.Cart' or 'shop.models.*', separated by commas",
    text => Option.when(text.split(',').forall(_.trim.matches("""(\w+\.)+(\w+|\*)|""")))(text)
  )

  /** How long a task waits for another attempt to let go of a store, in milliseconds. */
  val LockTimeoutMs: Setting[Int] =
    whole("spark.keystate.lockTimeoutMs", Some(60000), 1, Int.MaxValue)

  /** The number of partitions of an operator whose partitions own the key groups by range.
    * Operators set it for their stores; a user's value has no effect.
    */
  val Parallelism: Setting[Int] =
    whole("spark.keystate.parallelism", None, 1, KeyGroups.MaxMaxParallelism)

  /** Every setting. */
  val all: Seq[Setting[_]] = Seq(
    MaxParallelism,
    Backend,
    RocksDBMemoryMB,
    RocksDBWriteBufferRatio,
    RocksDBPredefinedOptions,
    OnRestart,
    RemovedStates,
    MaxCachedKeys,
    InlineEntries,
    BroadcastCheck,
    PickleAllow,
    LockTimeoutMs,
    Parallelism
  )

  /** Throws BadSettingException for the first setting whose value is not allowed. */
  def check(get: String => Option[String]): Unit = all.foreach(_.in(get))

  /** A setting with a whole number from `least` to `most`. */
  private def whole(key: String, default: Option[Int], least: Int, most: Int): Setting[Int] = {
    val upTo = if (most == Int.MaxValue) "on" else s"to $most"
    new Setting(
      key,
      default,
      s"a whole number from $least $upTo",
      _.toIntOption.filter(n => least <= n && n <= most)
    )
  }

  /** A setting with one of these values, of which the first is the default. */
  private def oneOf(key: String, values: String*): Setting[String] = {
    val (before, last) = (values.init, values.last)
    new Setting(
      key,
      Some(values.head),
      before.map(v => s"'$v'").mkString(", ") + s" or '$last'",
      text => values.find(_ == text)
    )
  }
}
