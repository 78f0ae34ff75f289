package keystate.settings

import keystate.errors.BadSettingException
import keystate.keygroup.KeyGroups

/** A setting of Keystate.
  *
  * @param key
  *   its full name
  * @param default
  *   what counts where it is not set; None: that depends on the query
  * @param allowed
  *   which values it takes, to go on from "must be"
  * @param parse
  *   the value, or None if it is not allowed
  */
final class Setting[T] private[settings] (
    val key: String,
    val default: Option[T],
    val allowed: String,
    parse: String => Option[T]
) {

  /** The value in some settings, if it is there.
    *
    * @param get
    *   the text of a setting, by its name
    * @throws BadSettingException
    *   it is not allowed
    */
  def in(get: String => Option[String]): Option[T] =
    get(key).map(text =>
      parse(text.trim).getOrElse(throw new BadSettingException(key, text, allowed))
    )

  /** The value in some settings, or the default, which there must be. */
  def of(get: String => Option[String]): T = in(get).orElse(default).get
}

/** All settings of Keystate, in the order of README's table. What reads a setting reads it here. */
object Settings {

  // Classes that users' settings name and offset logs hold: these names never change.
  final val ProviderClass = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"
  final val FileManagerClass = "org.apache.spark.sql.keystate.KeystateCheckpointFileManager"
  final val ExtensionClass = "org.apache.spark.sql.keystate.KeystateExtension"

  /** The number of key groups. Fixed for a checkpoint's life. */
  val MaxParallelism: Setting[Int] =
    whole("spark.keystate.maxParallelism", None, 1, KeyGroups.MaxMaxParallelism)

  /** Where working state is kept. */
  val Backend: Setting[String] = new Setting(
    "spark.keystate.backend",
    Some("hashmap"),
    "'hashmap', 'rocksdb' or the name of a class",
    text => Option.when(text.nonEmpty)(text)
  )

  /** The native memory that all stores of an executor share, in MiB. */
  val RocksDBMemoryMB: Setting[Int] =
    whole("spark.keystate.rocksdb.memoryMB", Some(256), 1, Int.MaxValue)

  /** How much of it write buffers may take. */
  val RocksDBWriteBufferRatio: Setting[Double] = new Setting(
    "spark.keystate.rocksdb.writeBufferRatio",
    Some(0.5),
    "a number between 0 and 1",
    _.toDoubleOption.filter(ratio => 0 < ratio && ratio < 1)
  )

  /** Tuning for a kind of disk. */
  val RocksDBPredefinedOptions: Setting[String] = oneOf(
    "spark.keystate.rocksdb.predefinedOptions",
    "DEFAULT",
    "SPINNING_DISK_OPTIMIZED",
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
    "FLASH_SSD_OPTIMIZED"
  )

  /** Whether a restart with another number of partitions rescales the query. */
  val OnRestart: Setting[String] =
    oneOf("spark.keystate.rescale.onRestart", "auto", "off")

  /** What becomes of a state that the function no longer declares. */
  val RemovedStates: Setting[String] = oneOf("spark.keystate.removedStates", "keep", "purge")

  /** With how many keys a Python worker returns their changes and forgets them. */
  val MaxCachedKeys: Setting[Int] =
    whole("spark.keystate.worker.maxCachedKeys", Some(200000), 1, Int.MaxValue)

  /** How many entries of a list or map are sent to the worker ahead; with more it asks for pages. */
  val InlineEntries: Setting[Int] =
    whole("spark.keystate.worker.inlineEntries", Some(1000), 0, Int.MaxValue)

  /** Whether to compare the subtasks' broadcast states. */
  val BroadcastCheck: Setting[Boolean] = new Setting(
    "spark.keystate.broadcast.check",
    Some(false),
    "'true' or 'false'",
    _.toBooleanOption
  )

  /** What pickles in operator state and of sources may name besides plain data; Python reads it. */
  val PickleAllow: Setting[String] = new Setting(
    "spark.keystate.pickle.allow",
    None,
    "names such as 'shop.Cart' or 'shop.models.*', separated by commas",
    text => Option.when(text.split(',').forall(_.trim.matches("""(\w+\.)+(\w+|\*)|""")))(text)
  )

  /** How long a task waits for another attempt to let go of a store, in ms. */
  val LockTimeoutMs: Setting[Int] =
    whole("spark.keystate.lockTimeoutMs", Some(60000), 1, Int.MaxValue)

  /** Set by an operator whose partitions own the key groups by range: its number of partitions. */
  val Parallelism: Setting[Int] =
    whole("spark.keystate.parallelism", None, 1, KeyGroups.MaxMaxParallelism)

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

  /** Fails for the first one that has a value which is not allowed. */
  def check(get: String => Option[String]): Unit = all.foreach(_.in(get))

  private def whole(key: String, default: Option[Int], least: Int, most: Int): Setting[Int] = {
    val upTo = if (most == Int.MaxValue) "on" else s"to $most"
    new Setting(
      key,
      default,
      s"a whole number from $least $upTo",
      _.toIntOption.filter(n => least <= n && n <= most)
    )
  }

  /** The first is the default. */
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
