package keystate.errors

/** Errors while a function or a source runs. */
private[errors] trait CallErrors {
  import ErrorCode._
  import OperatorName.named

  /** @param told
    *   the exceeded limit, with the number that exceeds it
    * @param state
    *   the state with the most entries
    * @param keys
    *   the state's largest keys
    */
  def stateLimit(told: String, state: String, keys: Seq[String], batch: Long): KeystateException =
    StateLimit.error(
      s"$told. The largest keys of '$state', with their elements: ${keys.mkString(", ")}. Batch " +
        s"$batch is not committed. Raise the limit, or set spark.keystate.state.onLimit to warn; " +
        "then let entries go: with a time to live, by timers that clear, or keystate.admin.forget."
    )

  def functionFailed(operator: Option[String], where: String, cause: Throwable): KeystateException =
    FunctionFailed.error(
      s"The function of operator${named(operator)} failed: $cause, while processing $where",
      cause
    )

  /** @param limit
    *   which one
    * @param kinds
    *   the kinds of errors, with how many of each
    */
  def tooManyDeadLetters(
      operator: Option[String],
      failed: Long,
      subtask: Int,
      batch: Option[Long],
      limit: String,
      kinds: Seq[String],
      trace: String
  ): KeystateException = TooManyDeadLetters.error(
    s"$failed rows and timers of operator${named(operator)}, subtask $subtask, failed" +
      s"${batch.fold("")(id => s" in micro-batch $id")} $limit of onError: " +
      s"${kinds.mkString("; ")}\n$trace"
  )

  def result(operator: Option[String], dataType: String, cause: Exception): KeystateException =
    ResultType.error(
      s"A result of operator${named(operator)} does not fit its type $dataType: ${cause.getMessage}",
      cause
    )

  /** Throws an error that names the state if a value does not fit the state's type. */
  def inState[T](state: String, declared: => String)(encode: => T): T =
    try encode
    catch {
      case e: Exception =>
        throw StateType.error(s"A value does not fit state '$state', $declared: ${e.getMessage}", e)
    }

  /** Throws an error that names the function if its accumulator does not fit its type. */
  def inAccumulator[T](function: String, declared: => String)(encode: => T): T =
    try encode
    catch {
      case e: Exception =>
        throw StateType.error(
          s"The accumulator that $function creates does not fit its type $declared: " +
            e.getMessage,
          e
        )
    }

  def nullUserKey(state: String, declared: String): KeystateException =
    NullKey.error(s"State '$state', $declared, can't have the key null.")

  def keyDoesNotFit(key: String, dataType: String): KeystateException = KeyType.error(
    s"The key $key does not fit $dataType, and rounded it would be another key. Round it in the " +
      "function that makes the key, or make it a string."
  )

  def valuesTooLarge(state: String, keys: Int, bytes: Long): KeystateException = ValuesTooLarge.error(
    s"The values of $keys keys in state '$state' have $bytes bytes, and at most 1 GiB can go to a " +
      "Python worker at a time. Set spark.sql.execution.arrow.maxRecordsPerBatch so low that fewer " +
      "keys go together, or hold less in a key's value: lists and maps are sent by page."
  )

  def broadcastReadOnly(name: String): KeystateException = Declaration.error(
    s"Broadcast state '$name' can only be read here: change it in processBroadcastElement, which " +
      "every subtask runs with the same elements."
  )

  def broadcastDisagrees(
      operator: Option[String],
      state: String,
      batch: Long,
      agreeing: Seq[Seq[Int]]
  ): KeystateException = BroadcastDisagrees.error(
    s"Broadcast state '$state' of operator${named(operator)} is not the same on all subtasks after " +
      s"batch $batch: ${agreeing.map(_.mkString("subtasks ", ", ", "")).mkString(" differ from ")}. " +
      "process_broadcast_element must make the same of the same elements everywhere: without a " +
      "random number, a clock or the subtask's index, and without what keyed state holds."
  )

  def noCurrentKey(state: String): KeystateException = NoCurrentKey.error(
    s"State '$state', or an iterator over it, was used where its key is not being processed: use it " +
      "in processElement or onTimer only, in the thread that called them, and an iterator in the call " +
      "that made it."
  )

  def keyOutsideOfCall(): KeystateException = NoCurrentKey.error(
    "There is no current key outside of a call of the function: ask for it in processElement or " +
      "onTimer."
  )

  def notInCall(what: String): KeystateException = NotInCall.error(
    s"$what was used outside of a call of the function, or in another thread than the one that called " +
      "it: use it in the call only, and in its thread."
  )

  def notInBroadcastElement(): KeystateException = NotInCall.error(
    "applyToKeyedState can only be called in processBroadcastElement, and not within itself."
  )

  def noTimerFires(): KeystateException =
    NotInCall.error("timeDomain is of the timer that fires, and none does: ask for it in onTimer.")

  def rawStateNotRestored(): KeystateException =
    NotInCall.error("Raw state can only be read in initializeState.")

  def otherKeyGroup(group: Int, first: Int, last: Int): KeystateException =
    RawStream.error(s"Key group $group is not of this subtask, which has $first to $last.")

  def keyGroupBegunTwice(group: Int): KeystateException =
    RawStream.error(s"The stream of key group $group was begun already.")

  def noKeyGroupBegun(): KeystateException = RawStream.error("Call startNewKeyGroup before write.")

  /** For callers that come after the task's end: a worker, a thread of a function, a reader of a
    * result.
    */
  def taskEnded(task: String): KeystateException = TaskEnded.error(
    s"The task has ended ($task): it was cancelled, it failed, or its result was not read to the end. " +
      "Its state can't be read or changed any more; this attempt counts for nothing."
  )

  def stateInUse(store: String): KeystateException = StateInUse.error(
    s"$store can't be committed: another thread is still at work with it, of a function that was " +
      "called elsewhere than in its task, or of one that answers a worker. The task is to be tried again."
  )

  def sourceDied(source: String, cause: Throwable): KeystateException = SourceDied.error(
    s"The Python process of source '$source' is gone; the driver's log has what it wrote last. " +
      "Start the query again: it goes on from its last batch.",
    cause
  )

  def sourceFailed(source: String, cause: Throwable): KeystateException =
    FunctionFailed.error(s"The function of source $source failed: $cause", cause)
}
