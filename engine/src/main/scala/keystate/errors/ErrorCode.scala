package keystate.errors

import scala.jdk.CollectionConverters._

/** A kind of error.
  *
  * @param name
  *   the code, which never changes; it is in brackets before the message
  * @param sqlState
  *   the state that Spark, or the SQL standard, assigns to errors of this kind
  * @param meaning
  *   what has happened
  * @param action
  *   what to do
  * @param raisedBy
  *   the languages whose code raises it: `python`, `scala`
  */
final class ErrorCode private (
    val name: String,
    val sqlState: String,
    val meaning: String,
    val action: String,
    val raisedBy: Set[String]
) extends Serializable {
  override def toString: String = name

  /** An error of this kind. */
  private[errors] def error(message: String, cause: Throwable = null): KeystateException =
    new KeystateException(this, message, cause)

  /** An error that comes from an executor gets this JVM's own entry of the catalogue. */
  private def readResolve: AnyRef = ErrorCode.all.find(_.name == name).getOrElse(this)
}

/** The catalogue of errors, of the JVM and of Python, from `errors.json`. Each error that Scala
  * raises has a name here.
  */
object ErrorCode {

  /** All codes, by name. */
  val all: Seq[ErrorCode] = Facts.read("errors").map { case (name, facts) =>
    new ErrorCode(
      name,
      facts.get("sqlState").asText,
      facts.get("meaning").asText,
      facts.get("action").asText,
      facts.get("raisedBy").elements.asScala.map(_.asText).toSet
    )
  }

  val BadSetting: ErrorCode = of("KEYSTATE_BAD_SETTING")
  val BroadcastDisagrees: ErrorCode = of("KEYSTATE_BROADCAST_DISAGREES")
  val CannotCanary: ErrorCode = of("KEYSTATE_CANNOT_CANARY")
  val CannotCompare: ErrorCode = of("KEYSTATE_CANNOT_COMPARE")
  val CannotEdit: ErrorCode = of("KEYSTATE_CANNOT_EDIT")
  val CannotForget: ErrorCode = of("KEYSTATE_CANNOT_FORGET")
  val CannotImport: ErrorCode = of("KEYSTATE_CANNOT_IMPORT")
  val CannotReplaceFile: ErrorCode = of("KEYSTATE_CANNOT_REPLACE_FILE")
  val CannotReplay: ErrorCode = of("KEYSTATE_CANNOT_REPLAY")
  val CannotRescale: ErrorCode = of("KEYSTATE_CANNOT_RESCALE")
  val CannotShare: ErrorCode = of("KEYSTATE_CANNOT_SHARE")
  val CheckpointMoved: ErrorCode = of("KEYSTATE_CHECKPOINT_MOVED")
  val CorruptFile: ErrorCode = of("KEYSTATE_CORRUPT_FILE")
  val Declaration: ErrorCode = of("KEYSTATE_DECLARATION")
  val ExtensionMissing: ErrorCode = of("KEYSTATE_EXTENSION_MISSING")
  val Fenced: ErrorCode = of("KEYSTATE_FENCED")
  val FunctionFailed: ErrorCode = of("KEYSTATE_FUNCTION_FAILED")
  val ImportExists: ErrorCode = of("KEYSTATE_IMPORT_EXISTS")
  val IncompatiblePartitions: ErrorCode = of("KEYSTATE_INCOMPATIBLE_PARTITIONS")
  val KeyChanged: ErrorCode = of("KEYSTATE_KEY_CHANGED")
  val KeyNotAColumn: ErrorCode = of("KEYSTATE_KEY_NOT_A_COLUMN")
  val KeyType: ErrorCode = of("KEYSTATE_KEY_TYPE")
  val LocalStorage: ErrorCode = of("KEYSTATE_LOCAL_STORAGE")
  val MaxParallelismChanged: ErrorCode = of("KEYSTATE_MAX_PARALLELISM_CHANGED")
  val MissingFile: ErrorCode = of("KEYSTATE_MISSING_FILE")
  val MissingVersion: ErrorCode = of("KEYSTATE_MISSING_VERSION")
  val MixedPartitions: ErrorCode = of("KEYSTATE_MIXED_PARTITIONS")
  val NativeLibrary: ErrorCode = of("KEYSTATE_NATIVE_LIBRARY")
  val NotInCall: ErrorCode = of("KEYSTATE_NOT_IN_CALL")
  val NoCheckpoint: ErrorCode = of("KEYSTATE_NO_CHECKPOINT")
  val NoCurrentKey: ErrorCode = of("KEYSTATE_NO_CURRENT_KEY")
  val NoSuchState: ErrorCode = of("KEYSTATE_NO_SUCH_STATE")
  val NoWatermark: ErrorCode = of("KEYSTATE_NO_WATERMARK")
  val NullKey: ErrorCode = of("KEYSTATE_NULL_KEY")
  val OpenWindows: ErrorCode = of("KEYSTATE_OPEN_WINDOWS")
  val OperatorsChanged: ErrorCode = of("KEYSTATE_OPERATORS_CHANGED")
  val InsideCheckpoint: ErrorCode = of("KEYSTATE_INSIDE_CHECKPOINT")
  val ParallelismChanged: ErrorCode = of("KEYSTATE_PARALLELISM_CHANGED")
  val ParallelismTooHigh: ErrorCode = of("KEYSTATE_PARALLELISM_TOO_HIGH")
  val PickleRefused: ErrorCode = of("KEYSTATE_PICKLE_REFUSED")
  val PromotionUnfinished: ErrorCode = of("KEYSTATE_PROMOTION_UNFINISHED")
  val Protocol: ErrorCode = of("KEYSTATE_PROTOCOL")
  val ProviderMissing: ErrorCode = of("KEYSTATE_PROVIDER_MISSING")
  val QueryIsRunning: ErrorCode = of("KEYSTATE_QUERY_IS_RUNNING")
  val ReadOnly: ErrorCode = of("KEYSTATE_READ_ONLY")
  val RawStream: ErrorCode = of("KEYSTATE_RAW_STREAM")
  val RescaleFailed: ErrorCode = of("KEYSTATE_RESCALE_FAILED")
  val ReservedName: ErrorCode = of("KEYSTATE_RESERVED_NAME")
  val ResultType: ErrorCode = of("KEYSTATE_RESULT_TYPE")
  val SavepointExists: ErrorCode = of("KEYSTATE_SAVEPOINT_EXISTS")
  val SinkAhead: ErrorCode = of("KEYSTATE_SINK_AHEAD")
  val SinkFailed: ErrorCode = of("KEYSTATE_SINK_FAILED")
  val SourceChanged: ErrorCode = of("KEYSTATE_SOURCE_CHANGED")
  val SourceColumns: ErrorCode = of("KEYSTATE_SOURCE_COLUMNS")
  val SourceDied: ErrorCode = of("KEYSTATE_SOURCE_DIED")
  val SparkConnect: ErrorCode = of("KEYSTATE_SPARK_CONNECT")
  val SparkVersion: ErrorCode = of("KEYSTATE_SPARK_VERSION")
  val Storage: ErrorCode = of("KEYSTATE_STORAGE")
  val StateLimit: ErrorCode = of("KEYSTATE_STATE_LIMIT")
  val StatesReplaced: ErrorCode = of("KEYSTATE_STATES_REPLACED")
  val StateChanged: ErrorCode = of("KEYSTATE_STATE_CHANGED")
  val StateInUse: ErrorCode = of("KEYSTATE_STATE_IN_USE")
  val StateRow: ErrorCode = of("KEYSTATE_STATE_ROW")
  val StateType: ErrorCode = of("KEYSTATE_STATE_TYPE")
  val StoreInUse: ErrorCode = of("KEYSTATE_STORE_IN_USE")
  val TargetExists: ErrorCode = of("KEYSTATE_TARGET_EXISTS")
  val TaskEnded: ErrorCode = of("KEYSTATE_TASK_ENDED")
  val TimeModeChanged: ErrorCode = of("KEYSTATE_TIME_MODE_CHANGED")
  val TooManyDeadLetters: ErrorCode = of("KEYSTATE_TOO_MANY_DEAD_LETTERS")
  val Unfinished: ErrorCode = of("KEYSTATE_UNFINISHED")
  val UnknownSchema: ErrorCode = of("KEYSTATE_UNKNOWN_SCHEMA")
  val UnsupportedFormat: ErrorCode = of("KEYSTATE_UNSUPPORTED_FORMAT")
  val ValuesTooLarge: ErrorCode = of("KEYSTATE_VALUES_TOO_LARGE")

  private def of(name: String): ErrorCode = all
    .find(_.name == name)
    .getOrElse(throw new NoSuchElementException(s"errors.json has no $name"))
}
