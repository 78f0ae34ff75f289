package keystate.errors

/** Errors for a query that does not fit the checkpoint from which it restarts. */
private[errors] trait RestartErrors {
  import ErrorCode._

  def maxParallelismChanged(recorded: Int, wanted: Int, location: String): KeystateException =
    MaxParallelismChanged.error(
      s"The checkpoint $location was written with max_parallelism=$recorded and can't be read " +
        s"with max_parallelism=$wanted: it is fixed for a checkpoint's life. Leave it unset to " +
        "take the recorded one, or make a changed copy: " +
        "keystate.admin.edit(checkpoint).set_max_parallelism(groups)."
    )

  def stateChanged(
      name: String,
      recorded: String,
      declared: String,
      reason: String
  ): KeystateException = StateChanged.error(
    s"State '$name' is $recorded in the checkpoint but $declared in the function. $reason Fields " +
      "may be added, removed, reordered and widened; else declare it as before, give the new " +
      "state another name, or make a changed copy of the checkpoint: " +
      s"editor = keystate.admin.edit(checkpoint); rows = editor.read('$name'), made to fit; " +
      s"editor.drop('$name'); editor.add(descriptor, rows); editor.write(target)."
  )

  /** @param part
    *   what of the pattern differs
    */
  def patternChanged(state: String, part: String, was: String, is: String): KeystateException =
    StateChanged.error(
      s"The checkpoint has partial matches of another pattern: $part was $was and is now $is. Go on " +
        "with the pattern as it was, or drop the partial matches in a changed copy: " +
        s"editor = keystate.admin.edit(checkpoint); editor.drop('$state'); editor.write(target)."
    )

  def keyChanged(recorded: String, declared: String): KeystateException = KeyChanged.error(
    s"The state in the checkpoint is keyed by ($recorded), but the query is keyed by ($declared). " +
      "Key it as before, or make a changed copy of the checkpoint: " +
      "editor = keystate.admin.edit(checkpoint); editor.rekey(key, change), where change gives " +
      "rows their new key; editor.write(target)."
  )

  /** @param recorded
    *   what the checkpoint says of the windows
    * @param declared
    *   what the query says; None if it has no windows
    * @param open
    *   some windows that are open
    */
  def openWindows(
      recorded: String,
      declared: Option[String],
      open: Seq[String]
  ): KeystateException = OpenWindows.error(
    s"The windows in the checkpoint are ($recorded), but those of the query are " +
      s"(${declared.getOrElse("none")}). This can change only while no window is open, and there " +
      s"are: ${open.mkString("; ")}. Run the query with the windows that it had until these have " +
      "ended, or start with a new checkpoint."
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
    OperatorsChanged.error(
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
    StatesReplaced.error(
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
  ): KeystateException = TimeModeChanged.error(
    s"The time mode of $description is '$recorded' in the checkpoint and '$wanted' in the query; " +
      "with 'auto' it is 'event_time' if the input has a watermark, else 'none'. Give it " +
      s"time_mode='$recorded', or make a changed copy: editor = keystate.admin.edit(checkpoint); " +
      s"editor.set_time_mode('$wanted', operator=$operator); editor.write(target)."
  )

  def foreignOffset(source: String, json: String): KeystateException = SourceChanged.error(
    s"The checkpoint has the offset $json where the query has the source '$source': another " +
      "source was here. Put the sources of a query back in their order, or start with a new " +
      "checkpoint."
  )

  def sourceColumns(
      source: String,
      file: String,
      stored: String,
      declared: String
  ): KeystateException = SourceColumns.error(
    s"The rows in $file have the columns ($stored), but the source '$source' now has ($declared). " +
      "It is a micro-batch that was begun before the restart: run it with the release that wrote " +
      "it first, until it is committed, as with the trigger availableNow. Then start this one."
  )

  def pickledElement(i: Int): KeystateException = PickleRefused.error(
    s"Element $i of the function's list (state '$$list') in the checkpoint is a pickle of a Python " +
      "class that spark.keystate.pickle.allow names, which Scala does not read. Let the function " +
      "return plain data in Python (numbers, strings, lists, dicts, Rows) and run a micro-batch " +
      "there."
  )

  def otherElement(i: Int, declared: String, cause: Throwable): KeystateException =
    StateChanged.error(
      s"Element $i of the function's list in the checkpoint is no $declared: ${cause.getMessage}. " +
        "Declare the type that it has.",
      cause
    )

  def foreignProvider(checkpoint: String, provider: String): KeystateException = CannotRescale.error(
    s"The state in $checkpoint was written by $provider, which keystate can't rescale. Turn the " +
      "checkpoint into one of Keystate's first, by 'keystate import'."
  )

  def unknownFamily(store: String, family: String): KeystateException = CannotRescale.error(
    s"$store has column family '$family', which Spark's state schema does not tell. Run the query " +
      "with the number of partitions that it was stopped with."
  )

  def rescaleFailed(cause: Throwable): KeystateException = RescaleFailed.error(
    s"The query could not be rescaled to spark.sql.shuffle.partitions: ${cause.getMessage} Set it " +
      "to the number of partitions that the query was stopped with to go on as before.",
    cause
  )

  /** An error of the disk or the object store, in its own words, which name the file. */
  def storage(checkpoint: String, cause: Throwable): KeystateException = Storage.error(
    s"The storage of $checkpoint refuses what is needed to go on: ${cause.getMessage} " +
      s"(${cause.getClass.getSimpleName}). Make room there, or let the query's user read and write " +
      "there, and start again.",
    cause
  )

  def cannotReplace(file: String): KeystateException = CannotReplaceFile.error(
    s"The file system of $file does not replace a file by renaming another one to its name, and a " +
      "rescale needs that. The checkpoint is as it was: set the old number of partitions, or copy " +
      "the checkpoint to a file system that does."
  )

  def queryIsRunning(checkpoint: String, who: Option[String] = None): KeystateException =
    QueryIsRunning.error(
      s"A query is running on $checkpoint${who.fold("")(": " + _)}. Stop it first."
    )

  def fenced(checkpoint: String, run: String, other: String): KeystateException = Fenced.error(
    s"The checkpoint $checkpoint was taken over by $other, so this $run ends; what it had " +
      "committed counts, and the other goes on from there. Only one query may run on a checkpoint: " +
      "stop one of the two before you start it again."
  )

  def committedForOthers(
      checkpoint: String,
      batch: Long,
      committed: Int,
      wanted: Int
  ): KeystateException = MixedPartitions.error(
    s"Batch $batch of the checkpoint $checkpoint was committed with $committed partitions, and this " +
      s"query begins the next one with $wanted: another driver has committed it after this start had " +
      "rescaled the query. Stop the other driver, and start this query again: it then goes on from " +
      "what was committed, with the number of partitions that it is started with."
  )

  /** @param id
    *   the transactional id
    */
  def sinkAhead(id: String, published: Long, batch: Long): KeystateException = SinkAhead.error(
    s"Kafka has results up to micro-batch $published under the transactional id '$id', but this " +
      s"checkpoint is at micro-batch $batch: it was restored from before, or another query has " +
      "this sinkId. Go on from the checkpoint that published them; or give the sink another " +
      "option 'sinkId', and the results since then come again."
  )

  def sinkFailed(sink: String, cause: Throwable): KeystateException = SinkFailed.error(
    s"The sink '$sink' could not publish a committed micro-batch: ${cause.getMessage} " +
      s"(${cause.getClass.getSimpleName}). Its rows are staged in the checkpoint: start the query " +
      "again, which publishes them first.",
    cause
  )

  def stagedFileGone(file: String, batch: Long): KeystateException = MissingFile.error(
    s"$file is not there, which has results of micro-batch $batch that were not published. Restore " +
      "it from a copy."
  )
}
