package keystate.errors

/** A kind of error.
  *
  * @param name
  *   the code, which never changes; it stands in brackets before the message
  * @param sqlState
  *   the one that Spark gives errors of this kind, or the one of the SQL standard
  * @param meaning
  *   what has happened
  * @param action
  *   what to do
  */
final class ErrorCode private (
    val name: String,
    val sqlState: String,
    val meaning: String,
    val action: String
) extends Serializable {
  override def toString: String = name

  /** An error that comes from an executor gets this JVM's own entry of the catalogue. */
  private def readResolve: AnyRef = ErrorCode.all.find(_.name == name).getOrElse(this)
}

/** The catalogue of errors, of the JVM and of Python. docs/errors.md lists it. */
object ErrorCode {
  val BadSetting: ErrorCode = new ErrorCode(
    "KEYSTATE_BAD_SETTING",
    "22023",
    "A setting has a value that it can't have.",
    "Set it to what the message allows, or leave it unset."
  )

  val BroadcastDisagrees: ErrorCode = new ErrorCode(
    "KEYSTATE_BROADCAST_DISAGREES",
    "XXKST",
    "A broadcast state differs between subtasks, which the check for debugging found.",
    "Let process_broadcast_element make the same of the same elements everywhere: no random " +
      "number, clock, subtask index or keyed state."
  )

  val CannotCompare: ErrorCode = new ErrorCode(
    "KEYSTATE_CANNOT_COMPARE",
    "0A000",
    "Two checkpoints have different numbers of key groups and can't be compared.",
    "Compare checkpoints of one query."
  )

  val CannotEdit: ErrorCode = new ErrorCode(
    "KEYSTATE_CANNOT_EDIT",
    "0A000",
    "An operator has raw keyed state, which belongs to the key groups that are to be changed.",
    "Drop that state first, or keep the key groups."
  )

  val CannotImport: ErrorCode = new ErrorCode(
    "KEYSTATE_CANNOT_IMPORT",
    "0A000",
    "The checkpoint's state was written by a provider that can't be imported, or is " +
      "Keystate's already.",
    "Import checkpoints of Spark's RocksDB or HDFS-backed provider."
  )

  val CannotReplaceFile: ErrorCode = new ErrorCode(
    "KEYSTATE_CANNOT_REPLACE_FILE",
    "58030",
    "The file system does not replace a file by a rename, which a rescale needs.",
    "Start with the old number of partitions, or copy the checkpoint to another file system."
  )

  val CannotRescale: ErrorCode = new ErrorCode(
    "KEYSTATE_CANNOT_RESCALE",
    "0A000",
    "The state can't be given another number of partitions.",
    "Run the query with the number of partitions that it was stopped with, or import the " +
      "checkpoint first."
  )

  val Configuration: ErrorCode = new ErrorCode(
    "KEYSTATE_CONFIGURATION",
    "42000",
    "The session is not what Keystate needs.",
    "Build it with keystate.configure(SparkSession.builder)."
  )

  val CorruptFile: ErrorCode = new ErrorCode(
    "KEYSTATE_CORRUPT_FILE",
    "58030",
    "A file of the checkpoint is damaged.",
    "Restore the file from a copy, or go on from an older batch or a savepoint."
  )

  val Declaration: ErrorCode = new ErrorCode(
    "KEYSTATE_DECLARATION",
    "42000",
    "A function, a state or an option is declared in a way that can't work.",
    "Change the declaration as the message says."
  )

  val Error: ErrorCode = new ErrorCode(
    "KEYSTATE_ERROR",
    "XX000",
    "Something else went wrong.",
    "Read the message; if it is no mistake of yours, report it."
  )

  val ExtensionMissing: ErrorCode = new ErrorCode(
    "KEYSTATE_EXTENSION_MISSING",
    "42000",
    "The session lacks Keystate's extension.",
    "Start the session with spark.sql.extensions, or build it with keystate.configure."
  )

  val Fenced: ErrorCode = new ErrorCode(
    "KEYSTATE_FENCED",
    "40000",
    "Another driver has taken the checkpoint over.",
    "Run one query on a checkpoint: stop one of the two."
  )

  val FunctionFailed: ErrorCode = new ErrorCode(
    "KEYSTATE_FUNCTION_FAILED",
    "38000",
    "The user's function raised an error.",
    "Mend the function; the message has its error and what it was processing."
  )

  val ImportExists: ErrorCode = new ErrorCode(
    "KEYSTATE_IMPORT_EXISTS",
    "42K03",
    "The target of an import is not an empty folder.",
    "Give it a folder of its own."
  )

  val IncompatiblePartitions: ErrorCode = new ErrorCode(
    "KEYSTATE_INCOMPATIBLE_PARTITIONS",
    "XXKST",
    "Partitions number their states differently and can't be put together.",
    "Run the query with its present number of partitions."
  )

  val JarMissing: ErrorCode = new ErrorCode(
    "KEYSTATE_JAR_MISSING",
    "42000",
    "The Python package or the session is without Keystate's jar.",
    "Install a wheel, and build the session with keystate.configure(SparkSession.builder)."
  )

  val KeyChanged: ErrorCode = new ErrorCode(
    "KEYSTATE_KEY_CHANGED",
    "XXKST",
    "The query is keyed by other columns than the state in the checkpoint.",
    "Key it as before, or change the checkpoint with rekey of keystate.admin.edit."
  )

  val KeyNotAColumn: ErrorCode = new ErrorCode(
    "KEYSTATE_KEY_NOT_A_COLUMN",
    "42000",
    "A key is not an expression over one row.",
    "Give column names or expressions over one row."
  )

  val KeyType: ErrorCode = new ErrorCode(
    "KEYSTATE_KEY_TYPE",
    "42K09",
    "A column's type can't be a key.",
    "Use another column, or derive one."
  )

  val LocalStorage: ErrorCode = new ErrorCode(
    "KEYSTATE_LOCAL_STORAGE",
    "58030",
    "A local file can't be written.",
    "Free space, or set spark.local.dir to another disk; the checkpoint is as it was."
  )

  val MaxParallelismChanged: ErrorCode = new ErrorCode(
    "KEYSTATE_MAX_PARALLELISM_CHANGED",
    "XXKST",
    "max_parallelism is another than the checkpoint was written with.",
    "Leave it unset, or change the checkpoint with set_max_parallelism of keystate.admin.edit."
  )

  val MissingFile: ErrorCode = new ErrorCode(
    "KEYSTATE_MISSING_FILE",
    "58030",
    "A file that a version needs is not there.",
    "Restore it, or start from an earlier batch that does not need it."
  )

  val MissingVersion: ErrorCode = new ErrorCode(
    "KEYSTATE_MISSING_VERSION",
    "58030",
    "A version of the state was never committed, or was cleaned up.",
    "Restore its file, or start from another checkpoint."
  )

  val MixedPartitions: ErrorCode = new ErrorCode(
    "KEYSTATE_MIXED_PARTITIONS",
    "XXKST",
    "Partitions of one version were written for different numbers of partitions.",
    "Stop all drivers but one, see keystate verify, and start with the number of the last " +
      "committed batch."
  )

  val NativeLibrary: ErrorCode = new ErrorCode(
    "KEYSTATE_NATIVE_LIBRARY",
    "58030",
    "RocksDB's native library can't be loaded.",
    "Mend the folder that it is unpacked to, or use the backend hashmap."
  )

  val NewerFormat: ErrorCode = new ErrorCode(
    "KEYSTATE_NEWER_FORMAT",
    "0A000",
    "A file was written by a newer release.",
    "Upgrade Keystate."
  )

  val NotAnswered: ErrorCode = new ErrorCode(
    "KEYSTATE_NOT_ANSWERED",
    "XXKST",
    "The executor could not answer a worker's question for state.",
    "Look at the JVM's error in the message, and at the executor's log."
  )

  val NotInCall: ErrorCode = new ErrorCode(
    "KEYSTATE_NOT_IN_CALL",
    "42000",
    "Something of a function's context was used outside of its call.",
    "Use it in the call only, and in its thread."
  )

  val NoCheckpoint: ErrorCode = new ErrorCode(
    "KEYSTATE_NO_CHECKPOINT",
    "42K03",
    "There is no checkpoint, or no such batch, at a location.",
    "Give the query's checkpointLocation, and a batch that its logs have."
  )

  val NoCurrentKey: ErrorCode = new ErrorCode(
    "KEYSTATE_NO_CURRENT_KEY",
    "42000",
    "A state was used where its key is not being processed.",
    "Use it in process_element or on_timer only."
  )

  val NoSession: ErrorCode = new ErrorCode(
    "KEYSTATE_NO_SESSION",
    "42000",
    "There is no Spark session.",
    "Create one, or pass spark=."
  )

  val NoSuchState: ErrorCode = new ErrorCode(
    "KEYSTATE_NO_SUCH_STATE",
    "42K03",
    "A checkpoint has no such state, or more than one.",
    "Choose by state= and operator= from those that the message lists."
  )

  val NoWatermark: ErrorCode = new ErrorCode(
    "KEYSTATE_NO_WATERMARK",
    "42000",
    "Event time is asked for and the input has no watermark.",
    "Call withWatermark before keying."
  )

  val NullKey: ErrorCode = new ErrorCode(
    "KEYSTATE_NULL_KEY",
    "22004",
    "A map was given the key null.",
    "Use another key."
  )

  val OperatorsChanged: ErrorCode = new ErrorCode(
    "KEYSTATE_OPERATORS_CHANGED",
    "XXKST",
    "The query has other stateful operators than the checkpoint, or has them in another order.",
    "Write the query as before, or change the checkpoint with keystate.admin.edit: " +
      "order_operators, add_operator, drop_operator."
  )

  val ParallelismChanged: ErrorCode = new ErrorCode(
    "KEYSTATE_PARALLELISM_CHANGED",
    "XXKST",
    "A store has other key groups than the number of partitions asks for.",
    "Restart with the number of partitions that the query was stopped with."
  )

  val ParallelismTooHigh: ErrorCode = new ErrorCode(
    "KEYSTATE_PARALLELISM_TOO_HIGH",
    "22023",
    "There are more partitions than key groups.",
    "Lower spark.sql.shuffle.partitions, or raise max_parallelism for a new checkpoint."
  )

  val PickleRefused: ErrorCode = new ErrorCode(
    "KEYSTATE_PICKLE_REFUSED",
    "22023",
    "A checkpoint has a pickle of more than plain data.",
    "Allow its classes by spark.keystate.pickle.allow if you trust the checkpoint."
  )

  val Protocol: ErrorCode = new ErrorCode(
    "KEYSTATE_PROTOCOL",
    "0A000",
    "A Python worker and the jar speak different versions of the protocol.",
    "Install the same release of the Python package and the jar."
  )

  val ProviderMissing: ErrorCode = new ErrorCode(
    "KEYSTATE_PROVIDER_MISSING",
    "42000",
    "The session's state store provider is not Keystate's.",
    "Build the session with keystate.configure, before the query's first start."
  )

  val PythonVersion: ErrorCode = new ErrorCode(
    "KEYSTATE_PYTHON_VERSION",
    "0A000",
    "A Spark Connect client and the server's workers run different versions of Python.",
    "Run the client with the version that the message names, or set PYSPARK_PYTHON on the server."
  )

  val QueryIsRunning: ErrorCode = new ErrorCode(
    "KEYSTATE_QUERY_IS_RUNNING",
    "0A000",
    "A query is running on the checkpoint.",
    "Stop it first."
  )

  val RawStream: ErrorCode = new ErrorCode(
    "KEYSTATE_RAW_STREAM",
    "42000",
    "A raw stream was begun twice, not at all, or for a key group of another subtask.",
    "Begin one stream for each of get_key_group_list(), then write."
  )

  val RescaleFailed: ErrorCode = new ErrorCode(
    "KEYSTATE_RESCALE_FAILED",
    "XXKST",
    "A query could not be rescaled at its start.",
    "Set the number of partitions that it was stopped with to go on as before."
  )

  val ReservedName: ErrorCode = new ErrorCode(
    "KEYSTATE_RESERVED_NAME",
    "42000",
    "A state has a name that it can't have.",
    "Give it another name."
  )

  val ResultType: ErrorCode = new ErrorCode(
    "KEYSTATE_RESULT_TYPE",
    "42K09",
    "A result does not fit the output's type.",
    "Return what the output schema says."
  )

  val SavepointExists: ErrorCode = new ErrorCode(
    "KEYSTATE_SAVEPOINT_EXISTS",
    "42K03",
    "The target of a savepoint is not an empty folder.",
    "Give it a folder of its own."
  )

  val SourceChanged: ErrorCode = new ErrorCode(
    "KEYSTATE_SOURCE_CHANGED",
    "XXKST",
    "The checkpoint has the offset of another source.",
    "Put the sources back in their order, or start with a new checkpoint."
  )

  val SourceDied: ErrorCode = new ErrorCode(
    "KEYSTATE_SOURCE_DIED",
    "XXKST",
    "The Python process of a source is gone.",
    "Start the query again: it goes on from its last batch."
  )

  val SparkConnect: ErrorCode = new ErrorCode(
    "KEYSTATE_SPARK_CONNECT",
    "0A000",
    "The Spark Connect server has no Keystate, or another release of it.",
    "Start it with the same release's jar and the settings of keystate.server_settings()."
  )

  val SparkVersion: ErrorCode = new ErrorCode(
    "KEYSTATE_SPARK_VERSION",
    "0A000",
    "The version of Spark is not one that Keystate, or its jar, is for.",
    "Install the version, or take the jar, that the message names."
  )

  val StateChanged: ErrorCode = new ErrorCode(
    "KEYSTATE_STATE_CHANGED",
    "XXKST",
    "A state is declared in a way that what is stored does not fit.",
    "Declare it as before, give the new state another name, or change the checkpoint with drop " +
      "and add of keystate.admin.edit."
  )

  val StateInUse: ErrorCode = new ErrorCode(
    "KEYSTATE_STATE_IN_USE",
    "XXKST",
    "A store can't be committed while another thread is at work with it.",
    "Let functions work in their own thread only; Spark tries the task again."
  )

  val StateRow: ErrorCode = new ErrorCode(
    "KEYSTATE_STATE_ROW",
    "22000",
    "A row of a DataFrame that is to be state can't be: a key is null or comes twice.",
    "Mend the row, which the message shows."
  )

  val StateType: ErrorCode = new ErrorCode(
    "KEYSTATE_STATE_TYPE",
    "42K09",
    "A value does not fit its state's type.",
    "Store what the declared type says."
  )

  val StatesReplaced: ErrorCode = new ErrorCode(
    "KEYSTATE_STATES_REPLACED",
    "XXKST",
    "An operator has none of the states that the checkpoint has of it, and only new ones.",
    "Put the operators back in their order, or change the checkpoint with keystate.admin.edit: " +
      "order_operators, rename; if it is meant, set spark.keystate.replacedStates to allow."
  )

  val StoreInUse: ErrorCode = new ErrorCode(
    "KEYSTATE_STORE_IN_USE",
    "XXKST",
    "A store is still held by another task.",
    "As a rule Spark's retry goes through; else raise spark.keystate.lockTimeoutMs."
  )

  val TargetExists: ErrorCode = new ErrorCode(
    "KEYSTATE_TARGET_EXISTS",
    "42K03",
    "The place for a new checkpoint is not an empty folder.",
    "Give it a folder of its own."
  )

  val TaskEnded: ErrorCode = new ErrorCode(
    "KEYSTATE_TASK_ENDED",
    "XXKST",
    "State was used after its task had ended.",
    "Nothing: the attempt counts for nothing."
  )

  val TimeModeChanged: ErrorCode = new ErrorCode(
    "KEYSTATE_TIME_MODE_CHANGED",
    "XXKST",
    "An operator has another time mode than in the checkpoint.",
    "Give it the old one by time_mode=, or change the checkpoint with set_time_mode of " +
      "keystate.admin.edit."
  )

  val Unfinished: ErrorCode = new ErrorCode(
    "KEYSTATE_UNFINISHED",
    "58030",
    "A savepoint, an import, create or edit was cut off while it wrote this checkpoint.",
    "Delete its folder, and make it again."
  )

  val UnknownSchema: ErrorCode = new ErrorCode(
    "KEYSTATE_UNKNOWN_SCHEMA",
    "58030",
    "A value has a schema that its version does not know: the checkpoint is damaged.",
    "Go on from an older checkpoint or a savepoint."
  )

  val UnsupportedFormat: ErrorCode = new ErrorCode(
    "KEYSTATE_UNSUPPORTED_FORMAT",
    "0A000",
    "A file has a format that this release does not read.",
    "Use the release that wrote it, or a later one."
  )

  val ValuesTooLarge: ErrorCode = new ErrorCode(
    "KEYSTATE_VALUES_TOO_LARGE",
    "54000",
    "The values of the keys of one message are more than 1 GiB.",
    "Lower spark.sql.execution.arrow.maxRecordsPerBatch, or use a list or a map."
  )

  /** All of them, by name. */
  val all: Seq[ErrorCode] = Seq(
    BadSetting,
    BroadcastDisagrees,
    CannotCompare,
    CannotEdit,
    CannotImport,
    CannotReplaceFile,
    CannotRescale,
    Configuration,
    CorruptFile,
    Declaration,
    Error,
    ExtensionMissing,
    Fenced,
    FunctionFailed,
    ImportExists,
    IncompatiblePartitions,
    JarMissing,
    KeyChanged,
    KeyNotAColumn,
    KeyType,
    LocalStorage,
    MaxParallelismChanged,
    MissingFile,
    MissingVersion,
    MixedPartitions,
    NativeLibrary,
    NewerFormat,
    NotAnswered,
    NotInCall,
    NoCheckpoint,
    NoCurrentKey,
    NoSession,
    NoSuchState,
    NoWatermark,
    NullKey,
    OperatorsChanged,
    ParallelismChanged,
    ParallelismTooHigh,
    PickleRefused,
    Protocol,
    ProviderMissing,
    PythonVersion,
    QueryIsRunning,
    RawStream,
    RescaleFailed,
    ReservedName,
    ResultType,
    SavepointExists,
    SourceChanged,
    SourceDied,
    SparkConnect,
    SparkVersion,
    StatesReplaced,
    StateChanged,
    StateInUse,
    StateRow,
    StateType,
    StoreInUse,
    TargetExists,
    TaskEnded,
    TimeModeChanged,
    Unfinished,
    UnknownSchema,
    UnsupportedFormat,
    ValuesTooLarge
  )
}
