package keystate.settings

import keystate.errors.BadSettingException
import keystate.keygroup.KeyGroups

/** A setting of Keystate.
  *
  * @param key
  *   its full name
  * @param meaning
  *   what it sets
  * @param default
  *   its value if it is not set; None if that depends on the query
  * @param allowed
  *   the values that it takes, as words that follow "must be"
  * @param parse
  *   the value of a text, or None if it is not allowed
  * @param fixed
  *   whether it holds for a checkpoint's whole life; other settings may change at a restart
  */
final class Setting[T] private[settings] (
    val key: String,
    val meaning: String,
    val default: Option[T],
    val allowed: String,
    parse: String => Option[T],
    val fixed: Boolean = false
) {

  /** The value in some settings. None if it is not set.
    *
    * @param get
    *   the text of a setting, by its name
    * @throws BadSettingException
    *   if the value is not allowed
    */
  def in(get: String => Option[String]): Option[T] =
    get(key).map(text =>
      parse(text.trim).getOrElse(throw new BadSettingException(key, text, allowed))
    )

  /** The value in some settings or, if it is not set, the default, which there must be. */
  def of(get: String => Option[String]): T = in(get).orElse(default).get
}

/** All settings of Keystate, in the order of README's table. Whatever reads a setting reads it
  * here.
  */
object Settings {

  // These names never change: users' settings and offset logs name the classes.
  final val ProviderClass = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"
  final val FileManagerClass = "org.apache.spark.sql.keystate.KeystateCheckpointFileManager"
  final val ExtensionClass = "org.apache.spark.sql.keystate.KeystateExtension"

  val MaxParallelism: Setting[Int] =
    whole(
      "spark.keystate.maxParallelism",
      "the number of key groups",
      None,
      1,
      KeyGroups.MaxMaxParallelism,
      fixed = true
    )

  val Backend: Setting[String] = new Setting(
    "spark.keystate.backend",
    "where working state is kept",
    Some("hashmap"),
    "'hashmap', 'rocksdb' or the name of a class",
    text => Option.when(text.nonEmpty)(text)
  )

  val RocksDBMemoryMB: Setting[Int] =
    whole(
      "spark.keystate.rocksdb.memoryMB",
      "the memory that all stores of an executor share, in MiB",
      Some(256),
      1,
      Int.MaxValue
    )

  val RocksDBWriteBufferRatio: Setting[Double] = new Setting(
    "spark.keystate.rocksdb.writeBufferRatio",
    "how much of it write buffers may take",
    Some(0.5),
    "a number between 0 and 1",
    _.toDoubleOption.filter(ratio => 0 < ratio && ratio < 1)
  )

  val RocksDBPredefinedOptions: Setting[String] = oneOf(
    "spark.keystate.rocksdb.predefinedOptions",
    "tuning for a kind of disk",
    "DEFAULT",
    "SPINNING_DISK_OPTIMIZED",
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
    "FLASH_SSD_OPTIMIZED"
  )

  val OnRestart: Setting[String] =
    oneOf(
      "spark.keystate.rescale.onRestart",
      "whether a restart with another number of partitions rescales the query",
      "auto",
      "off"
    )

  val RemovedStates: Setting[String] = oneOf(
    "spark.keystate.removedStates",
    "what becomes of a state that the function no longer declares",
    "keep",
    "purge"
  )

  val ReplacedStates: Setting[String] = oneOf(
    "spark.keystate.replacedStates",
    "whether an operator may go on with none of its states and only new ones",
    "refuse",
    "allow"
  )

  val MaxCachedKeys: Setting[Int] =
    whole(
      "spark.keystate.worker.maxCachedKeys",
      "with how many keys a Python worker returns their changes and forgets them",
      Some(200000),
      1,
      Int.MaxValue
    )

  val InlineEntries: Setting[Int] =
    whole(
      "spark.keystate.worker.inlineEntries",
      "how many entries of a list or map are sent to the worker ahead; with more it asks for pages",
      Some(1000),
      0,
      Int.MaxValue
    )

  val BroadcastCheck: Setting[Boolean] = new Setting(
    "spark.keystate.broadcast.check",
    "whether to compare the subtasks' broadcast states",
    Some(false),
    "'true' or 'false'",
    _.toBooleanOption
  )

  val SampledKeys: Setting[Int] =
    whole(
      "spark.keystate.ui.sampleKeys",
      "the key of every how many rows is counted for the tab Keystate; 0: of none",
      Some(0),
      0,
      Int.MaxValue
    )

  val PickleAllow: Setting[String] = new Setting(
    "spark.keystate.pickle.allow",
    "what pickles in operator state and of sources may name besides plain data; Python reads it",
    None,
    "names such as 'shop.Cart' or 'shop.models.*', separated by commas",
    text => Option.when(text.split(',').forall(_.trim.matches("""(\w+\.)+(\w+|\*)|""")))(text)
  )

  val SyncFiles: Setting[Boolean] = new Setting(
    "spark.keystate.checkpoint.sync",
    "whether files and folders of a checkpoint on a local disk are synced before they count",
    Some(false),
    "'true' or 'false'",
    _.toBooleanOption
  )

  val LockTimeoutMs: Setting[Int] =
    whole(
      "spark.keystate.lockTimeoutMs",
      "how long a task waits for another attempt to let go of a store, in ms",
      Some(60000),
      1,
      Int.MaxValue
    )

  val Parallelism: Setting[Int] =
    whole(
      "spark.keystate.parallelism",
      "set by an operator whose partitions own the key groups by range: its number of partitions",
      None,
      1,
      KeyGroups.MaxMaxParallelism
    )

  val all: Seq[Setting[_]] = Seq(
    MaxParallelism,
    Backend,
    RocksDBMemoryMB,
    RocksDBWriteBufferRatio,
    RocksDBPredefinedOptions,
    OnRestart,
    RemovedStates,
    ReplacedStates,
    MaxCachedKeys,
    InlineEntries,
    BroadcastCheck,
    SampledKeys,
    PickleAllow,
    SyncFiles,
    LockTimeoutMs,
    Parallelism
  )

  /** Throws for the first setting whose value is not allowed. */
  def check(get: String => Option[String]): Unit = all.foreach(_.in(get))

  private def whole(
      key: String,
      meaning: String,
      default: Option[Int],
      least: Int,
      most: Int,
      fixed: Boolean = false
  ): Setting[Int] = {
    val upTo = if (most == Int.MaxValue) "on" else s"to $most"
    new Setting(
      key,
      meaning,
      default,
      s"a whole number from $least $upTo",
      _.toIntOption.filter(n => least <= n && n <= most),
      fixed
    )
  }

  /** The first value is the default. */
  private def oneOf(key: String, meaning: String, values: String*): Setting[String] = {
    val (before, last) = (values.init, values.last)
    new Setting(
      key,
      meaning,
      Some(values.head),
      before.map(v => s"'$v'").mkString(", ") + s" or '$last'",
      text => values.find(_ == text)
    )
  }
}
