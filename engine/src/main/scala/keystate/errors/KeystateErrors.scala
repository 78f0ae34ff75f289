package keystate.errors

/** Makes the errors of the Spark side. */
object KeystateErrors {

  def eventTimeWithoutWatermark(operator: Option[String]): KeystateException =
    new KeystateException(
      ErrorCode.NoWatermark,
      s"Operator${named(operator)} asks for time_mode='event_time', but its input has no " +
        "watermark: call df.withWatermark(column, delay) before keystate.keyed(df, ...)."
    )

  def eventTimeTtlWithoutWatermark(state: String): KeystateException = new KeystateException(
    ErrorCode.NoWatermark,
    s"State '$state' has a time to live by event time, but the operator has no watermark: call " +
      "df.withWatermark(column, delay) before keystate.keyed(df, ...), with time_mode 'auto' or " +
      "'event_time'."
  )

  def windowsWithoutWatermark(assigner: String): KeystateException = new KeystateException(
    ErrorCode.NoWatermark,
    s"$assigner need a watermark: call withWatermark(column, delay) before keying; for a batch " +
      "Dataset, which has none, name the column: window(assigner, column)."
  )

  def providerMissing(provider: String, needed: String): KeystateException = new KeystateException(
    ErrorCode.ProviderMissing,
    s"The state store provider is $provider. Keystate's operators need " +
      s"spark.sql.streaming.stateStore.providerClass=$needed: build the session with " +
      "keystate.configure(SparkSession.builder), or set that key before the query's first start " +
      "(Spark fixes the provider in the checkpoint, so a query that was started with another one " +
      "keeps it)."
  )

  def otherSpark(builtFor: String, running: String): KeystateException = new KeystateException(
    ErrorCode.SparkVersion,
    s"This jar of Keystate is for Spark $builtFor, but Spark $running is running: take the jar " +
      s"whose name begins with keystate-spark${running.split('.').take(2).mkString(".")}, or for a " +
      "Python session the path that keystate.jar_path() gives."
  )

  def cannotReplay(reason: String): KeystateException =
    new KeystateException(ErrorCode.CannotReplay, reason)

  def noSuchOperator(
      checkpoint: String,
      operator: Option[Long],
      there: Seq[String]
  ): KeystateException = {
    val list = if (there.isEmpty) "none" else there.mkString("; ")
    new KeystateException(
      ErrorCode.NoSuchState,
      operator.fold(
        s"Not one keyed operator is in $checkpoint: tell which one by operator=."
      )(id => s"There is no keyed operator $id in $checkpoint.") + s" There are: $list."
    )
  }

  def noSuchState(
      checkpoint: String,
      state: Option[String],
      operator: Option[Long],
      found: Int,
      there: Seq[String]
  ): KeystateException = {
    val what = state.fold("state")(name => s"state '$name'") +
      operator.fold("")(id => s" of operator $id")
    val list = if (there.isEmpty) "none" else there.mkString("; ")
    new KeystateException(
      ErrorCode.NoSuchState,
      if (found == 0) s"There is no $what in $checkpoint. There are: $list."
      else
        s"More than one $what is in $checkpoint: tell which one by " +
          s"${if (state.isEmpty) "state=" else "operator="}. There are: $list."
    )
  }

  def noSchema(operator: String): KeystateException = new KeystateException(
    ErrorCode.NoSuchState,
    s"$operator has no description of a state's key: its query has not committed a batch yet."
  )

  def unknownCall(method: String, arguments: Int): KeystateException = new KeystateException(
    ErrorCode.SparkConnect,
    s"The server's jar of Keystate has no call '$method' with $arguments arguments: install the " +
      "same release of Keystate on the client and on the Spark Connect server."
  )

  def badCall(part: String): KeystateException = new KeystateException(
    ErrorCode.SparkConnect,
    s"The server's jar of Keystate does not understand a client's call: $part. Install the same " +
      "release of Keystate on both."
  )

  def valuesTooLarge(state: String, keys: Int, bytes: Long): KeystateException =
    new KeystateException(
      ErrorCode.ValuesTooLarge,
      s"The values of $keys keys in state '$state' have $bytes bytes, and at most 1 GiB can go to a " +
        "Python worker at a time. Set spark.sql.execution.arrow.maxRecordsPerBatch so low that fewer " +
        "keys go together, or hold less in a key's value: lists and maps are sent by page."
    )

  def unknownSetting(key: String, known: Seq[String]): KeystateException = new KeystateException(
    ErrorCode.BadSetting,
    s"$key is not a setting of Keystate: there are ${known.mkString(", ")}."
  )

  def keyType(column: String, dataType: String): KeystateException = new KeystateException(
    ErrorCode.KeyType,
    s"Column '$column' of type $dataType can't be a key: equal values need equal bytes and an " +
      "order. Use another column, or derive one (for a map: its sorted entries)."
  )

  def keyNotAColumn(description: String): KeystateException = new KeystateException(
    ErrorCode.KeyNotAColumn,
    s"$description can't be a key: give column names or expressions over one row."
  )

  def orderNotOfARow(description: String): KeystateException = declaration(
    s"Rows can't be sorted by $description: give column names or deterministic expressions over " +
      "one row."
  )

  def keysDiffer(first: String, second: String): KeystateException = declaration(
    s"The key columns of both inputs must have the same types, in the same order: those of the " +
      s"first input are ($first), of the second ($second). Cast them to one type."
  )

  def initialKeysDiffer(rows: String, initial: String): KeystateException = declaration(
    s"The key columns of the initial state must have the types of the stream's keys, in the same " +
      s"order: those of the stream are ($rows), of the initial state ($initial). Cast them."
  )

  def initialStateIsAStream(): KeystateException = declaration(
    "Initial state is a batch DataFrame, not a stream: it is read once, with the first micro-batch."
  )

  def ordersDiffer(
      first: String,
      firstType: String,
      second: String,
      secondType: String
  ): KeystateException = declaration(
    s"The rows of both inputs can't be merged by $first of type $firstType and $second of type " +
      s"$secondType: both must have the same type and direction."
  )

  def maxParallelismChanged(recorded: Int, wanted: Int, location: String): KeystateException =
    new KeystateException(
      ErrorCode.MaxParallelismChanged,
      s"The checkpoint $location was written with max_parallelism=$recorded and can't be read " +
        s"with max_parallelism=$wanted: it is fixed for a checkpoint's life. Leave it unset to " +
        "take the recorded one, or make a changed copy: " +
        "keystate.admin.edit(checkpoint).set_max_parallelism(groups)."
    )

  def parallelismTooHigh(partitions: Int, maxParallelism: Int): KeystateException =
    new KeystateException(
      ErrorCode.ParallelismTooHigh,
      s"The query runs with $partitions shuffle partitions, but max_parallelism is " +
        s"$maxParallelism: a key group can't be split. Set spark.sql.shuffle.partitions to at " +
        s"most $maxParallelism, or, for a new checkpoint, raise max_parallelism."
    )

  def stateChanged(
      name: String,
      recorded: String,
      declared: String,
      reason: String
  ): KeystateException = new KeystateException(
    ErrorCode.StateChanged,
    s"State '$name' is $recorded in the checkpoint but $declared in the function. $reason Fields " +
      "may be added, removed, reordered and widened; else declare it as before, give the new " +
      "state another name, or make a changed copy of the checkpoint: " +
      s"editor = keystate.admin.edit(checkpoint); rows = editor.read('$name'), made to fit; " +
      s"editor.drop('$name'); editor.add(descriptor, rows); editor.write(target)."
  )

  def keyChanged(recorded: String, declared: String): KeystateException = new KeystateException(
    ErrorCode.KeyChanged,
    s"The state in the checkpoint is keyed by ($recorded), but the query is keyed by ($declared). " +
      "Key it as before, or make a changed copy of the checkpoint: " +
      "editor = keystate.admin.edit(checkpoint); editor.rekey(key, change), where change gives " +
      "rows their new key; editor.write(target)."
  )

  /** Adds to an error in `body` which operator it is about. */
  def inOperator[T](operator: String)(body: => T): T =
    try body
    catch {
      case e: KeystateException
          if e.errorCode == ErrorCode.StateChanged || e.errorCode == ErrorCode.KeyChanged =>
        val message = e.getMessage.stripPrefix(s"[${e.errorCode}] ")
        throw new KeystateException(e.errorCode, s"$message It is $operator.", e.getCause)
    }

  /** @param moved
    *   operators whose numbers changed: names, numbers in the checkpoint, numbers in the query
    * @param order
    *   the argument of `order_operators` that mends it, if that is enough
    */
  def operatorsChanged(
      checkpoint: String,
      planned: Seq[String],
      recorded: Seq[String],
      moved: Seq[(String, Int, Int)],
      order: Option[Seq[Int]]
  ): KeystateException = {
    def listed(operators: Seq[String]) =
      operators.zipWithIndex.map { case (one, number) => s"$number $one" }.mkString(", ")
    val places = moved.map { case (name, before, now) =>
      val there = planned.lift(before).filter(_ => recorded.size == planned.size)
      s" Operator $name is number $before in the checkpoint and number $now in the query" +
        there.fold("")(other => s", which has $other as number $before") + "."
    }.mkString
    val call = order.fold(
      "editor.drop_operator(number) for what is gone, editor.add_operator(fn, key=...) for what " +
        "is new, editor.order_operators([...])"
    )(numbers => s"editor.order_operators([${numbers.mkString(", ")}])")
    new KeystateException(
      ErrorCode.OperatorsChanged,
      s"The query's stateful operators, from the sink to the sources, are ${listed(planned)}; " +
        s"those of the checkpoint $checkpoint are ${listed(recorded)}.$places State belongs to an " +
        "operator's number. Write the query as before, or make a changed copy: " +
        s"editor = keystate.admin.edit('$checkpoint'); $call; editor.write(target)."
    )
  }

  def statesReplaced(
      operator: String,
      recorded: Seq[String],
      declared: Seq[String]
  ): KeystateException = {
    def listed(states: Seq[String]) = states.map(s => s"'$s'").mkString(", ")
    new KeystateException(
      ErrorCode.StatesReplaced,
      s"The checkpoint has the states ${listed(recorded)} of $operator, and its function declares " +
        s"none of them, but ${listed(declared)}. If the query's operators changed places, put " +
        "them back, or make a changed copy: editor = keystate.admin.edit(checkpoint); " +
        "editor.order_operators([...]). If a state has a new name: editor.rename(" +
        s"'${recorded.head}', '${declared.head}'). If they are to begin empty, set " +
        "spark.keystate.replacedStates to allow."
    )
  }

  def timeModeChanged(
      description: String,
      operator: Long,
      recorded: String,
      wanted: String
  ): KeystateException = new KeystateException(
    ErrorCode.TimeModeChanged,
    s"The time mode of $description is '$recorded' in the checkpoint and '$wanted' in the query; " +
      "with 'auto' it is 'event_time' if the input has a watermark, else 'none'. Give it " +
      s"time_mode='$recorded', or make a changed copy: editor = keystate.admin.edit(checkpoint); " +
      s"editor.set_time_mode('$wanted', operator=$operator); editor.write(target)."
  )

  def damagedState(state: String, cause: Throwable): KeystateException = new KeystateException(
    ErrorCode.CorruptFile,
    s"What the checkpoint says of state '$state' can't be understood: $cause. The version file is " +
      "damaged, or was not written by Keystate. Go on from an older version or a savepoint.",
    cause
  )

  def pickledElement(i: Int): KeystateException = new KeystateException(
    ErrorCode.PickleRefused,
    s"Element $i of the function's list in the checkpoint is a pickle of a Python class, or of an " +
      "early build, which Scala does not read. Let the function return plain data in Python " +
      "(numbers, strings, lists, dicts, Rows) and run a micro-batch there."
  )

  def otherElement(i: Int, declared: String, cause: Throwable): KeystateException =
    new KeystateException(
      ErrorCode.StateChanged,
      s"Element $i of the function's list in the checkpoint is no $declared: ${cause.getMessage}. " +
        "Declare the type that it has.",
      cause
    )

  def damagedElement(i: Int, cause: Throwable): KeystateException = new KeystateException(
    ErrorCode.CorruptFile,
    s"Element $i of the function's list in the checkpoint can't be read: ${cause.getMessage}. Go " +
      "on from an older checkpoint.",
    cause
  )

  def unknownSchema(state: String, found: Int, newest: Int): KeystateException =
    new KeystateException(
      ErrorCode.UnknownSchema,
      s"A value of state '$state' has schema $found, but the version knows schemas up to $newest: " +
        "the checkpoint is damaged. Go on from an older one or a savepoint."
    )

  def reservedName(name: String): KeystateException = new KeystateException(
    ErrorCode.ReservedName,
    s"A state can't be named '$name': a name must not be empty, 'default', begin with '$$', or " +
      "begin or end with white space."
  )

  def foreignProvider(checkpoint: String, provider: String): KeystateException =
    new KeystateException(
      ErrorCode.CannotRescale,
      s"The state in $checkpoint was written by $provider, which keystate can't rescale. Turn the " +
        "checkpoint into one of Keystate's first, by 'keystate import'."
    )

  def unknownFamily(store: String, family: String): KeystateException = new KeystateException(
    ErrorCode.CannotRescale,
    s"$store has column family '$family', which Spark's state schema does not tell. Run the query " +
      "with the number of partitions that it was stopped with."
  )

  def rescaleFailed(cause: Throwable): KeystateException = new KeystateException(
    ErrorCode.RescaleFailed,
    s"The query could not be rescaled to spark.sql.shuffle.partitions: ${cause.getMessage} Set it " +
      "to the number of partitions that the query was stopped with to go on as before.",
    cause
  )

  def broadcastDisagrees(
      operator: Option[String],
      state: String,
      batch: Long,
      agreeing: Seq[Seq[Int]]
  ): KeystateException = new KeystateException(
    ErrorCode.BroadcastDisagrees,
    s"Broadcast state '$state' of operator${named(operator)} is not the same on all subtasks after " +
      s"batch $batch: ${agreeing.map(_.mkString("subtasks ", ", ", "")).mkString(" differ from ")}. " +
      "process_broadcast_element must make the same of the same elements everywhere: without a " +
      "random number, a clock or the subtask's index, and without what keyed state holds."
  )

  def cannotReplace(file: String): KeystateException = new KeystateException(
    ErrorCode.CannotReplaceFile,
    s"The file system of $file does not replace a file by renaming another one to its name, and a " +
      "rescale needs that. The checkpoint is as it was: set the old number of partitions, or copy " +
      "the checkpoint to a file system that does."
  )

  def queryIsRunning(checkpoint: String, who: Option[String] = None): KeystateException =
    new KeystateException(
      ErrorCode.QueryIsRunning,
      s"A query is running on $checkpoint${who.fold("")(": " + _)}. Stop it first."
    )

  def fenced(checkpoint: String, run: String, other: String): KeystateException =
    new KeystateException(
      ErrorCode.Fenced,
      s"The checkpoint $checkpoint was taken over by $other, so this $run ends; what it had " +
        "committed counts, and the other goes on from there. Only one query may run on a checkpoint: " +
        "stop one of the two before you start it again."
    )

  def damagedLog(file: String, cause: Throwable): KeystateException = new KeystateException(
    ErrorCode.CorruptFile,
    s"The log file $file is damaged: $cause. Restore it from a copy, or go on from a savepoint.",
    cause
  )

  def foreignOffset(source: String, json: String): KeystateException = new KeystateException(
    ErrorCode.SourceChanged,
    s"The checkpoint has the offset $json where the query has the source '$source': another " +
      "source was here. Put the sources of a query back in their order, or start with a new " +
      "checkpoint."
  )

  def sourceDied(source: String, cause: Throwable): KeystateException = new KeystateException(
    ErrorCode.SourceDied,
    s"The Python process of source '$source' is gone; the driver's log has what it wrote last. " +
      "Start the query again: it goes on from its last batch.",
    cause
  )

  def sourceFailed(source: String, cause: Throwable): KeystateException = new KeystateException(
    ErrorCode.FunctionFailed,
    s"The function of source $source failed: $cause",
    cause
  )

  def stateOfSource(state: String): KeystateException = declaration(
    s"State '$state': a source has no keyed state. Get operator state in initializeState."
  )

  def rawStateWithoutKeys(): KeystateException = declaration(
    "Raw keyed state needs a key: use data.keyed or data.keyBy, or raw operator state."
  )

  def rawStateNotRestored(): KeystateException =
    new KeystateException(ErrorCode.NotInCall, "Raw state can only be read in initializeState.")

  def otherKeyGroup(group: Int, first: Int, last: Int): KeystateException = new KeystateException(
    ErrorCode.RawStream,
    s"Key group $group is not of this subtask, which has $first to $last."
  )

  def keyGroupBegunTwice(group: Int): KeystateException =
    new KeystateException(ErrorCode.RawStream, s"The stream of key group $group was begun already.")

  def noKeyGroupBegun(): KeystateException =
    new KeystateException(ErrorCode.RawStream, "Call startNewKeyGroup before write.")

  def keyGroupWithoutKeys(): KeystateException = declaration(
    "A key group needs a key: use data.keyed or data.keyBy."
  )

  def keyGroupOfSource(): KeystateException = declaration("A source has no keys.")

  def metricsOfSource(): KeystateException = declaration("A source has no metrics of its own.")

  def noMetricsPlanned(): KeystateException = declaration(
    "There were no metrics when the query was planned. Get them in open, unconditionally."
  )

  def otherMetric(name: String, kind: String): KeystateException =
    declaration(s"Metric '$name' is a $kind already.")

  def damagedSourceHeader(batch: Long, cause: Throwable): KeystateException =
    new KeystateException(
      ErrorCode.CorruptFile,
      s"The header of the source's file of batch $batch can't be understood: $cause. Restore the " +
        "file, or start with a new checkpoint.",
      cause
    )

  def noCheckpoint(location: String): KeystateException = new KeystateException(
    ErrorCode.NoCheckpoint,
    s"$location is not the checkpoint of a query: its logs are not there. Give the folder that was " +
      "the query's checkpointLocation."
  )

  def nothingCommitted(location: String): KeystateException = new KeystateException(
    ErrorCode.NoCheckpoint,
    s"The checkpoint $location has no committed batch yet, and so no state."
  )

  def noBatch(batch: Long, location: String): KeystateException = new KeystateException(
    ErrorCode.NoCheckpoint,
    s"The logs of the checkpoint $location don't have batch $batch any more."
  )

  /** @param kept
    *   the versions that there are, ascending
    */
  def versionNotKept(location: String, wanted: String, kept: Seq[Long]): KeystateException = {
    val there = if (kept.isEmpty) "none" else s"versions ${kept.head} to ${kept.last}"
    new KeystateException(
      ErrorCode.MissingVersion,
      s"The checkpoint $location does not have the state $wanted. There are $there: version N + 1 " +
        "is the state after batch N."
    )
  }

  def tableWithoutCheckpoint(catalog: String, table: String): KeystateException =
    new KeystateException(
      ErrorCode.NoCheckpoint,
      s"$catalog.$table names no checkpoint: a table of this catalog is " +
        s"$catalog.`/path/of/checkpoint`.state, or $catalog.`/path/of/checkpoint`.operator.state."
    )

  def readOnly(what: String): KeystateException = new KeystateException(
    ErrorCode.ReadOnly,
    s"$what is not possible: the tables of a checkpoint can only be read. keystate.admin.edit makes a " +
      "changed copy of a checkpoint."
  )

  def unfinished(checkpoint: String): KeystateException = new KeystateException(
    ErrorCode.Unfinished,
    s"What was to make $checkpoint (a savepoint, an import, create or edit) was cut off, so not " +
      "all of it is there; or it was deleted. Delete the folder (keystate delete) and make it again. " +
      "If it is being written just now, wait until it is done."
  )

  def cannotForget(why: String): KeystateException =
    new KeystateException(ErrorCode.CannotForget, s"The key can't be forgotten: $why.")

  def cannotShare(checkpoint: String, version: Long): KeystateException = new KeystateException(
    ErrorCode.CannotShare,
    s"Version $version of the state in $checkpoint can't be shared: a savepoint by reference is of " +
      "one of the two newest versions, and the query went on too quickly, or an older one was asked " +
      "for, or it took so long that its references were given up. Leave out the version, try again, " +
      "or make a savepoint without by_reference (on the command line without --by-reference)."
  )

  def savepointExists(target: String): KeystateException = new KeystateException(
    ErrorCode.SavepointExists,
    s"$target exists and is not an empty folder: give a savepoint a folder of its own."
  )

  def targetExists(target: String): KeystateException = new KeystateException(
    ErrorCode.TargetExists,
    s"$target exists and is not an empty folder: give the new checkpoint a folder of its own."
  )

  def stateRow(state: String, row: String, problem: String): KeystateException =
    new KeystateException(ErrorCode.StateRow, s"State '$state', row $row: $problem.")

  def importExists(target: String): KeystateException = new KeystateException(
    ErrorCode.ImportExists,
    s"$target exists and is not an empty folder: give the imported checkpoint a folder of its own."
  )

  def importedAlready(location: String): KeystateException = new KeystateException(
    ErrorCode.CannotImport,
    s"The checkpoint $location is one of Keystate's already."
  )

  def cannotImport(location: String, provider: String): KeystateException = new KeystateException(
    ErrorCode.CannotImport,
    s"The state in $location was written by '$provider'. Only that of Spark's own RocksDB and " +
      "HDFS-backed state store providers can be imported."
  )

  def cannotCompare(operator: Long, groups: Seq[Int]): KeystateException = new KeystateException(
    ErrorCode.CannotCompare,
    s"The states of operator $operator can't be compared: they are in ${groups.mkString(" and ")} " +
      "key groups."
  )

  def newerFormat(file: String, found: Int, known: Int): KeystateException = new KeystateException(
    ErrorCode.NewerFormat,
    s"$file has format $found; this version of Keystate reads up to format $known. Upgrade it."
  )

  // For functions in the JVM. Functions in Python have errors of their own.

  def declaration(problem: String, cause: Throwable = null): KeystateException =
    new KeystateException(ErrorCode.Declaration, problem, cause)

  def twoStates(name: String): KeystateException = declaration(s"Two states are named '$name'.")

  def notDeclared(name: String, method: String): KeystateException = declaration(
    s"State '$name' was not declared when the query was planned: get every state in $method, " +
      "unconditionally."
  )

  def cannotExpire(name: String, kind: String): KeystateException =
    declaration(s"State '$name' is $kind, which has no time to live.")

  def broadcastReadOnly(name: String): KeystateException = declaration(
    s"Broadcast state '$name' can only be read here: change it in processBroadcastElement, which " +
      "every subtask runs with the same elements."
  )

  def noBroadcastState(name: String, known: Seq[String]): KeystateException = declaration(
    s"There is no broadcast state '$name': pass its descriptor to data.broadcast(...), which has " +
      s"${known.mkString(", ")}."
  )

  def stateWithoutKey(name: String): KeystateException =
    declaration(s"State '$name' needs a key: use data.keyed(column) or data.keyBy(function).")

  def extensionMissing(extension: String): KeystateException = new KeystateException(
    ErrorCode.ExtensionMissing,
    s"spark.sql.extensions lacks $extension: start the session with it, an extension can't be added " +
      "to one that is running."
  )

  def timerWithoutWatermark(operator: Option[String]): KeystateException = new KeystateException(
    ErrorCode.NoWatermark,
    s"An event-time timer of operator${named(operator)} needs a watermark: call " +
      "withWatermark(column, delay) before keying, with time mode 'auto' or 'event_time'."
  )

  def fieldMissing(what: String, field: String): KeystateException = new KeystateException(
    ErrorCode.Protocol,
    s"The Python package does not say '$field' of $what, which this jar needs: they are of different " +
      "releases. Install the same version of both."
  )

  /** For whoever comes after the task's end: a worker, a thread of a function, a reader of a
    * result.
    */
  def taskEnded(task: String): KeystateException = new KeystateException(
    ErrorCode.TaskEnded,
    s"The task has ended ($task): it was cancelled, it failed, or its result was not read to the end. " +
      "Its state can't be read or changed any more; this attempt counts for nothing."
  )

  def stateInUse(store: String): KeystateException = new KeystateException(
    ErrorCode.StateInUse,
    s"$store can't be committed: another thread is still at work with it, of a function that was " +
      "called elsewhere than in its task, or of one that answers a worker. The task is to be tried again."
  )

  def noCurrentKey(state: String): KeystateException = new KeystateException(
    ErrorCode.NoCurrentKey,
    s"State '$state', or an iterator over it, was used where its key is not being processed: use it " +
      "in processElement or onTimer only, in the thread that called them, and an iterator in the call " +
      "that made it."
  )

  def keyOutsideOfCall(): KeystateException = new KeystateException(
    ErrorCode.NoCurrentKey,
    "There is no current key outside of a call of the function: ask for it in processElement or " +
      "onTimer."
  )

  def notInBroadcastElement(): KeystateException = new KeystateException(
    ErrorCode.NotInCall,
    "applyToKeyedState can only be called in processBroadcastElement, and not within itself."
  )

  def noTimerFires(): KeystateException = new KeystateException(
    ErrorCode.NotInCall,
    "timeDomain is of the timer that fires, and none does: ask for it in onTimer."
  )

  def notInCall(what: String): KeystateException = new KeystateException(
    ErrorCode.NotInCall,
    s"$what was used outside of a call of the function, or in another thread than the one that called " +
      "it: use it in the call only, and in its thread."
  )

  def nullUserKey(state: String, declared: String): KeystateException = new KeystateException(
    ErrorCode.NullKey,
    s"State '$state', $declared, can't have the key null."
  )

  /** If a value does not fit a state's type, throws an error that names the state. */
  def inState[T](state: String, declared: => String)(encode: => T): T =
    try encode
    catch {
      case e: Exception =>
        throw new KeystateException(
          ErrorCode.StateType,
          s"A value does not fit state '$state', $declared: ${e.getMessage}",
          e
        )
    }

  def result(operator: Option[String], dataType: String, cause: Exception): KeystateException =
    new KeystateException(
      ErrorCode.ResultType,
      s"A result of operator${named(operator)} does not fit its type $dataType: ${cause.getMessage}",
      cause
    )

  def functionFailed(operator: Option[String], where: String, cause: Throwable): KeystateException =
    new KeystateException(
      ErrorCode.FunctionFailed,
      s"The function of operator${named(operator)} failed: $cause, while processing $where",
      cause
    )

  private def named(operator: Option[String]): String = operator.fold("")(n => s" '$n'")
}
