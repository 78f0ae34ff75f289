package keystate.errors

/** Errors in an operator's declaration: its inputs, keys, states and times. */
private[errors] trait DeclarationErrors {
  import ErrorCode._
  import OperatorName.named

  def declaration(problem: String, cause: Throwable = null): KeystateException =
    Declaration.error(problem, cause)

  /** @param problem
    *   what is wrong with a part of a pattern
    */
  def pattern(part: String, problem: String): KeystateException =
    Declaration.error(s"Part '$part' of the pattern $problem")

  /** @param absent
    *   whether the match has no row of this part; else that is its first row
    */
  def cannotSkip(part: String, absent: Boolean): KeystateException = FunctionFailed.error(
    s"After a match of a pattern one can't skip to '$part': " +
      (if (absent) "the match has no such row." else "it is the match's first row, for ever.")
  )

  def tooManyRuns(runs: Int, most: Int): KeystateException = StateLimit.error(
    s"A key has $runs partial matches of a pattern, more than $most: have the pattern say more " +
      "(within, next instead of followed_by, until), raise max_partial_matches, or drop them by " +
      "on_limit='drop'."
  )

  def eventTimeWithoutWatermark(operator: Option[String]): KeystateException = NoWatermark.error(
    s"Operator${named(operator)} asks for time_mode='event_time', but its input has no " +
      "watermark: call df.withWatermark(column, delay) before keystate.keyed(df, ...)."
  )

  def eventTimeTtlWithoutWatermark(state: String): KeystateException = NoWatermark.error(
    s"State '$state' has a time to live by event time, but the operator has no watermark: call " +
      "df.withWatermark(column, delay) before keystate.keyed(df, ...), with time_mode 'auto' or " +
      "'event_time'."
  )

  def windowsWithoutWatermark(assigner: String): KeystateException = NoWatermark.error(
    s"$assigner need a watermark: call withWatermark(column, delay) before keying; for a batch " +
      "Dataset, which has none, name the column: window(assigner, column)."
  )

  def timerWithoutWatermark(operator: Option[String]): KeystateException = NoWatermark.error(
    s"An event-time timer of operator${named(operator)} needs a watermark: call " +
      "withWatermark(column, delay) before keying, with time mode 'auto' or 'event_time'."
  )

  def keyType(column: String, dataType: String): KeystateException = KeyType.error(
    s"Column '$column' of type $dataType can't be a key: equal values need equal bytes and an " +
      "order. Use another column, or derive one (for a map: its sorted entries)."
  )

  /** @param hidden
    *   the hidden column of a file source that it uses, which has to be selected first
    */
  def keyNotAColumn(description: String, hidden: Option[String]): KeystateException =
    KeyNotAColumn.error(
      s"$description can't be a key: give column names or expressions over one row." +
        hidden.fold("")(name => s" For '$name' make a column of it first: df.select('*', ...).")
    )

  def keyChangesItself(description: String): KeystateException = KeyNotAColumn.error(
    s"$description can't be a key: it is another value each time that a row is read, so a row that " +
      "is read again would come to another key. Use a column, or an expression that gives the " +
      "same for the same row."
  )

  def orderNotOfARow(description: String): KeystateException = Declaration.error(
    s"Rows can't be sorted by $description: give column names or deterministic expressions over " +
      "one row."
  )

  def keysDiffer(first: String, second: String): KeystateException = Declaration.error(
    s"The key columns of both inputs must have the same types, in the same order: those of the " +
      s"first input are ($first), of the second ($second). Cast them to one type."
  )

  def initialKeysDiffer(rows: String, initial: String): KeystateException = Declaration.error(
    s"The key columns of the initial state must have the types of the stream's keys, in the same " +
      s"order: those of the stream are ($rows), of the initial state ($initial). Cast them."
  )

  def initialStateIsAStream(): KeystateException = Declaration.error(
    "Initial state is a batch DataFrame, not a stream: it is read once, with the first micro-batch."
  )

  def ordersDiffer(
      first: String,
      firstType: String,
      second: String,
      secondType: String
  ): KeystateException = Declaration.error(
    s"The rows of both inputs can't be merged by $first of type $firstType and $second of type " +
      s"$secondType: both must have the same type and direction."
  )

  def parallelismTooHigh(partitions: Int, maxParallelism: Int): KeystateException =
    ParallelismTooHigh.error(
      s"The query runs with $partitions shuffle partitions, but max_parallelism is " +
        s"$maxParallelism: a key group can't be split. Set spark.sql.shuffle.partitions to at " +
        s"most $maxParallelism, or, for a new checkpoint, raise max_parallelism."
    )

  def reservedName(name: String): KeystateException = ReservedName.error(
    s"A state can't be named '$name': a name must not be empty, 'default', begin with '$$', or " +
      "begin or end with white space."
  )

  def twoKinds(name: String, one: Class[_], other: Class[_]): KeystateException = declaration(
    s"Two states are named '$name', one by a ${one.getSimpleName} and one by a " +
      s"${other.getSimpleName}: give one of them another name."
  )

  def twoStates(name: String): KeystateException =
    Declaration.error(s"Two states are named '$name'.")

  def notDeclared(name: String, method: String): KeystateException = Declaration.error(
    s"State '$name' was not declared when the query was planned: get every state in $method, " +
      "unconditionally."
  )

  def cannotExpire(name: String, kind: String): KeystateException =
    Declaration.error(s"State '$name' is $kind, which has no time to live.")

  def noBroadcastState(name: String, known: Seq[String]): KeystateException = Declaration.error(
    s"There is no broadcast state '$name': pass its descriptor to data.broadcast(...), which has " +
      s"${known.mkString(", ")}."
  )

  def stateWithoutKey(name: String): KeystateException =
    Declaration.error(s"State '$name' needs a key: use data.keyed(column) or data.keyBy(function).")

  def stateOfSource(state: String): KeystateException = Declaration.error(
    s"State '$state': a source has no keyed state. Get operator state in initializeState."
  )

  def rawStateWithoutKeys(): KeystateException = Declaration.error(
    "Raw keyed state needs a key: use data.keyed or data.keyBy, or raw operator state."
  )

  def keyGroupWithoutKeys(): KeystateException =
    Declaration.error("A key group needs a key: use data.keyed or data.keyBy.")

  def keyGroupOfSource(): KeystateException = Declaration.error("A source has no keys.")

  def metricsOfSource(): KeystateException =
    Declaration.error("A source has no metrics of its own.")

  def noMetricsPlanned(): KeystateException = Declaration.error(
    "There were no metrics when the query was planned. Get them in open, unconditionally."
  )

  def otherMetric(name: String, kind: String): KeystateException =
    Declaration.error(s"Metric '$name' is a $kind already.")
}
