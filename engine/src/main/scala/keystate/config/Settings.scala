package keystate.config

import java.util.Locale

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import com.fasterxml.jackson.databind.JsonNode

import keystate.errors.{BadSettingException, Facts}

/** A setting of Keystate.
  *
  * @param key
  *   its full name
  * @param default
  *   its value if it is not set; None if that depends on the query
  * @param allowed
  *   the values that it takes, as words that follow "must be"
  * @param parse
  *   the value of a text, or None if it is not allowed
  */
final class Setting[T] private[config] (
    val key: String,
    val default: Option[T],
    val allowed: String,
    parse: String => Option[T]
)(implicit private[config] val values: ClassTag[T]) {

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

  private[config] def parsed(text: String): Option[T] = parse(text)

  /** The value in some settings or, if it is not set, the default, which must exist. */
  def of(get: String => Option[String]): T = in(get).orElse(default).get
}

/** All settings of Keystate, from `settings.json`, from which docs/configuration.md is generated
  * too. All code reads settings here.
  */
object Settings {

  // These names never change: users' settings and offset logs name the classes.
  final val ProviderClass = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"
  final val FileManagerClass = "org.apache.spark.sql.keystate.KeystateCheckpointFileManager"
  final val ExtensionClass = "org.apache.spark.sql.keystate.KeystateExtension"

  val all: Seq[Setting[_]] = Facts.read("settings").map { case (key, facts) => setting(key, facts) }

  val MaxParallelism: Setting[Int] = of("spark.keystate.maxParallelism")
  val Backend: Setting[String] = of("spark.keystate.backend")
  val HeapShare: Setting[Double] = of("spark.keystate.auto.heapShare")
  val RocksDBMemoryMB: Setting[Int] = of("spark.keystate.rocksdb.memoryMB")
  val RocksDBWriteBufferRatio: Setting[Double] = of("spark.keystate.rocksdb.writeBufferRatio")
  val RocksDBPredefinedOptions: Setting[String] = of("spark.keystate.rocksdb.predefinedOptions")
  val OnRestart: Setting[String] = of("spark.keystate.rescale.onRestart")
  val RemovedStates: Setting[String] = of("spark.keystate.removedStates")
  val ReplacedStates: Setting[String] = of("spark.keystate.replacedStates")
  val MaxCachedKeys: Setting[Int] = of("spark.keystate.worker.maxCachedKeys")
  val InlineEntries: Setting[Int] = of("spark.keystate.worker.inlineEntries")
  val BroadcastCheck: Setting[Boolean] = of("spark.keystate.broadcast.check")
  val SampledKeys: Setting[Int] = of("spark.keystate.ui.sampleKeys")
  val MaxEntries: Setting[Long] = size("spark.keystate.state.maxEntries")
  val MaxBytes: Setting[Long] = size("spark.keystate.state.maxBytes")
  val WarnShare: Setting[Double] = of("spark.keystate.state.warnShare")
  val OnLimit: Setting[String] = of("spark.keystate.state.onLimit")
  val SyncFiles: Setting[Boolean] = of("spark.keystate.checkpoint.sync")
  val KeepSeconds: Setting[Int] = of("spark.keystate.restart.keepSeconds")
  val LockTimeoutMs: Setting[Int] = of("spark.keystate.lockTimeoutMs")
  val Parallelism: Setting[Int] = of("spark.keystate.parallelism")

  /** Throws for the first setting whose value is not allowed. */
  def check(get: String => Option[String]): Unit = all.foreach(_.in(get))

  private def of[T](key: String)(implicit values: ClassTag[T]): Setting[T] = all
    .collectFirst { case found if found.key == key && found.values == values => found }
    .getOrElse(throw new NoSuchElementException(s"settings.json has no $key of $values"))
    .asInstanceOf[Setting[T]]

  /** A text that is a number, with a letter for units of bytes. */
  private def size(key: String): Setting[Long] = {
    val text = of[String](key)
    new Setting[Long](
      key,
      None,
      text.allowed,
      given =>
        text.parsed(given).map(_.toLowerCase(Locale.ROOT)).map { size =>
          val power = "kmgt".indexOf(size.last.toInt) + 1
          size.stripSuffix(if (power > 0) size.takeRight(1) else "").toLong << (10 * power)
        }
    )
  }

  private def setting(key: String, facts: JsonNode): Setting[_] = {
    val default = Option(facts.get("default"))
    facts.get("type").asText match {
      case "integer" =>
        val (least, most) = (facts.get("least").asInt, Option(facts.get("most")).map(_.asInt))
        new Setting[Int](
          key,
          default.map(_.asInt),
          s"a whole number from $least ${most.fold("on")(most => s"to $most")}",
          _.toIntOption.filter(n => least <= n && most.forall(n <= _))
        )
      case "number" =>
        val (above, below) = (facts.get("above").asDouble, facts.get("below").asDouble)
        new Setting[Double](
          key,
          default.map(_.asDouble),
          s"a number between ${facts.get("above").asText} and ${facts.get("below").asText}",
          _.toDoubleOption.filter(x => above < x && x < below)
        )
      case "boolean" =>
        new Setting[Boolean](key, default.map(_.asBoolean), "'true' or 'false'", _.toBooleanOption)
      case "choice" =>
        val values = facts.get("values").elements.asScala.map(_.asText).toSeq
        val quoted = values.map(value => s"'$value'")
        new Setting[String](
          key,
          default.map(_.asText),
          s"${quoted.init.mkString(", ")} or ${quoted.last}",
          text => values.find(_ == text)
        )
      case "text" =>
        val pattern = facts.get("pattern").asText
        new Setting[String](
          key,
          default.map(_.asText),
          facts.get("allowed").asText,
          text => Option.when(text.matches(pattern))(text)
        )
    }
  }
}
