package org.apache.spark.sql.keystate.python.protocol

/** Every name in the messages, answers and questions between a task and its Python worker. */
private[keystate] object Protocol {

  /** Of all these names and their meaning: a worker with another version refuses the task. */
  final val Version = 1

  /** The one column that messages come in: Spark's map-in-arrow input is one struct. */
  final val Message = "message"

  /** Columns of a message to the worker. */
  object Sent {
    final val Control = "control"
    final val Rows = "rows"
    final val Slots = "slots"
    final val Keys = "keys"
    final val Carried = "carried"
    final val TimerSlots = "timer_slots"
    final val TimerDomains = "timer_domains"
    final val TimerTimes = "timer_times"
    final val Broadcast = "broadcast"
  }

  /** What the control column says, as JSON. */
  object Control {
    final val Protocol = "protocol"
    final val Generation = "generation"
    final val Subtask = "subtask"
    final val Parallelism = "parallelism"
    final val MaxParallelism = "max_parallelism"
    final val Attempt = "attempt"
    final val Streaming = "streaming"
    final val BatchId = "batch_id"
    final val QueryRun = "query_run"
    final val Watermark = "watermark"
    final val ProcessingTime = "processing_time"
    final val EventTimeColumn = "event_time_column"
    final val Server = "server"
    final val Secret = "secret"
    final val OperatorTag = "operator_tag"
    final val BroadcastTag = "broadcast_tag"
    final val NewTag = "new_tag"
  }

  /** The address of the state server in the control column. */
  object Server {
    final val Host = "host"
    final val Port = "port"
    final val Path = "path"
  }

  /** Columns of an answer. */
  object Answer {
    final val Generation = "generation"
    final val Until = "until"
    final val Out = "out"
    final val Last = "last"
    final val TimerSlot = "timer_slot"
    final val TimerDomain = "timer_domain"
    final val TimerTime = "timer_time"
    final val TimerSet = "timer_set"
    final val OperatorTag = "operator_tag"
    final val OperatorState = "operator_state"
    final val RawGroups = "raw_groups"
    final val RawStreams = "raw_streams"
    final val Metrics = "metrics"
  }

  /** The metrics column's JSON: values by metric, by how several subtasks' become one. */
  object Metrics {
    final val Sum = "sum"
    final val Min = "min"
    final val Max = "max"
  }

  /** Columns of a state: `s` and its index, and in broadcast answers `b` and its index, with one of
    * these behind it.
    */
  object State {
    final val Keys = "_k"
    final val Values = "_v"
    final val Removed = "_d"
    final val Slot = "_slot"
    final val Reset = "_reset"
    final val UsedSlot = "_used_slot"
    final val UsedTime = "_used_time"
    final val UsedWhole = "_used_whole"
    final val UsedKey = "_used_k"

    def keyed(index: Int): String = s"s$index"
    def broadcast(index: Int): String = s"b$index"
  }

  /** What a worker asks for: the field `op` of a question. */
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

  /** Fields of a question and of the reply to it. */
  object Question {
    final val Op = "op"
    final val Secret = "secret"
    final val State = "state"
    final val Slot = "slot"
    final val Generation = "generation"
    final val Bounds = "bounds"
    final val Start = "start"
    final val End = "end"
    final val From = "from"
    final val Limit = "limit"
    final val Reverse = "reverse"
    final val Unions = "unions"
  }

  object Reply {
    final val Next = "next"
    final val Read = "read"
    final val State = "state"
    final val Group = "group"
    final val Error = "error"
  }

  /** Columns of the Arrow streams that questions and replies carry. */
  object Page {
    final val Key = "key"
    final val Value = "value"
  }
}
