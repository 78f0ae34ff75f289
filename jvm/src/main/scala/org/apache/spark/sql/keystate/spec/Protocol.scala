package org.apache.spark.sql.keystate.spec

/** All names in the messages, answers and questions between a task and its Python worker, and in
  * what declares an operator.
  */
private[keystate] object Protocol {

  /** The version of these names and their meaning. A worker with another one refuses the task. */
  final val Version = 4

  /** Columns of a message to the worker. They are fields of its one column `message`: relies on the
    * input of Spark's map-in-arrow being one struct.
    */
  object Message {
    final val Message = "message"
    final val Control = "control"
    final val Rows = "rows"
    final val KeyIndexes = "key_indexes"
    final val SecondRows = "second_rows"
    final val Inputs = "inputs"
    final val Keys = "keys"
    final val Carried = "carried"
    final val TimerKeyIndexes = "timer_key_indexes"
    final val TimerDomains = "timer_domains"
    final val TimerTimes = "timer_times"
    final val TimerWindowEnds = "timer_window_ends"
    final val TimerWindowStarts = "timer_window_starts"
    final val Broadcast = "broadcast"
    final val Packed = "packed"
  }

  /** Fields of the JSON in the control column. */
  object Control {
    final val Protocol = "protocol"
    final val CacheEpoch = "cache_epoch"
    final val Subtask = "subtask"
    final val Parallelism = "parallelism"
    final val MaxParallelism = "max_parallelism"
    final val Attempt = "attempt"
    final val Streaming = "streaming"
    final val BatchId = "batch_id"
    final val QueryRun = "query_run"
    final val Watermark = "watermark"
    final val LateWatermark = "late_watermark"
    final val ProcessingTime = "processing_time"
    final val RealTime = "real_time"
    final val TimersSent = "timers_sent"
    final val TimersLeft = "timers_left"
    final val EventTimeColumn = "event_time_column"
    final val SecondEventTimeColumn = "second_event_time_column"
    final val Server = "server"
    final val Secret = "secret"
    final val OperatorTag = "operator_tag"
    final val BroadcastTag = "broadcast_tag"
    final val NewTag = "new_tag"
  }

  /** The address of the state server, in the control column. */
  object Server {
    final val Host = "host"
    final val Port = "port"
    final val Path = "path"
  }

  /** Columns of an answer. */
  object Answer {
    final val CacheEpoch = "cache_epoch"
    final val Until = "until"
    final val Out = "out"
    final val Last = "last"
    final val TimerKeyIndex = "timer_key_index"
    final val TimerDomain = "timer_domain"
    final val TimerTime = "timer_time"
    final val TimerSet = "timer_set"
    final val TimerWindowEnd = "timer_window_end"
    final val TimerWindowStart = "timer_window_start"
    final val OperatorTag = "operator_tag"
    final val OperatorState = "operator_state"
    final val RawGroups = "raw_groups"
    final val RawStreams = "raw_streams"
    final val Metrics = "metrics"
    final val Packed = "packed"
  }

  /** Fields of the JSON in the metrics column. Each has values by metric; its name is how the
    * values of several subtasks become one.
    */
  object Metrics {
    final val Sum = "sum"
    final val Min = "min"
    final val Max = "max"
  }

  /** The names of the states with what windows hold: accumulators, those of merged windows, and
    * rows.
    */
  val WindowContents: Seq[String] = Seq("window-contents", "session-contents", "window-elements")

  /** The part after a state's number in the names of its columns. */
  object Part {
    final val KeyIndex = "key_index"
    final val Reset = "reset"
    final val Keys = "k"
    final val Values = "v"
    final val Removed = "d"
    final val UsedKeyIndex = "used_key_index"
    final val UsedTime = "used_time"
    final val UsedWhole = "used_whole"
    final val UsedKeys = "used_k"
  }

  /** The column of a keyed state, such as `s0`, or of a part of it, such as `s0_key_index`. */
  def stateColumn(index: Int): String = s"s$index"
  def stateColumn(index: Int, part: String): String = s"s${index}_$part"

  /** The column of a part of a broadcast state, as `b0_k`. */
  def broadcastColumn(index: Int, part: String): String = s"b${index}_$part"

  /** The requests of a worker: values of a question's field `op`. */
  object Op {
    final val Get = "get"
    final val Scan = "scan"
    final val Changes = "changes"
    final val Timers = "timers"
    final val Broadcast = "broadcast"
    final val Keys = "keys"
    final val OperatorState = "operator_state"
    final val RawKeyed = "raw_keyed"
  }

  /** Fields of a question. */
  object Question {
    final val Op = "op"
    final val State = "state"
    final val KeyIndex = "key_index"
    final val CacheEpoch = "cache_epoch"
    final val Bounds = "bounds"
    final val From = "from"
    final val Limit = "limit"
    final val Reverse = "reverse"
    final val Unions = "unions"
  }

  /** The names of a question's bounds. */
  object Bound {
    final val Start = "start"
    final val End = "end"
  }

  /** Fields of the reply to a question. */
  object Reply {
    final val Next = "next"
    final val Read = "read"
    final val State = "state"
    final val Unions = "unions"
    final val Group = "group"
    final val Error = "error"
  }

  /** Columns of the Arrow streams in questions and replies. */
  object Page {
    final val Key = "key"
    final val Value = "value"
  }

  /** Fields of the JSON that declares an operator, from Python to the jar. */
  object OperatorFields {
    final val Name = "name"
    final val MaxParallelism = "max_parallelism"
    final val TimeMode = "time_mode"
    final val Timers = "timers"
    final val States = "states"
    final val Broadcast = "broadcast"
    final val Checkpointed = "checkpointed"
    final val RawKeyed = "raw_keyed"
    final val OperatorStates = "operator_states"
    final val SideOutputs = "side_outputs"
    final val Metrics = "metrics"
    final val LateOutputs = "late_outputs"
    final val TakesLateRows = "takes_late_rows"
    final val TakesColumns = "takes_columns"
    final val Windows = "windows"
  }

  /** Fields of one of its states. */
  object StateFields {
    final val Name = "name"
    final val Kind = "kind"
    final val Descriptor = "descriptor"
    final val ValueType = "value_type"
    final val KeyType = "key_type"
    final val Order = "order"
    final val Ttl = "ttl"
    final val MaxEntries = "max_entries"
  }

  /** Fields of a state's time to live. */
  object TtlFields {
    final val Millis = "millis"
    final val EventTime = "event_time"
    final val UpdatedOnRead = "updated_on_read"
    final val ReturnExpired = "return_expired"
    final val SweepSize = "sweep_size"
    final val SweepOnRecords = "sweep_on_records"
    final val DropOnMerge = "drop_on_merge"
  }
}
