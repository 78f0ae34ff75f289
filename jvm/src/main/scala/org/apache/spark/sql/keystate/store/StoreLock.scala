package org.apache.spark.sql.keystate.store

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.spark.sql.execution.streaming.state.{
  AcquiredThreadInfo, StateStoreErrors, StateStoreId
}

import keystate.config.Settings
import keystate.errors.{ErrorCode, KeystateException}

/** Lets only one store of a provider be open at a time: two attempts of a task can run in one JVM.
  * Whoever opens the store gets a stamp, and passes it with every use. So an attempt that lost the
  * store can't interfere with its successor.
  */
private[keystate] final class StoreLock(id: StateStoreId, timeoutMillis: Long) {
  private var lastStamp = 0L
  private var owner: Option[AcquiredThreadInfo] = None
  private var closed = false
  // The stamp of the attempt that has the store open.
  @volatile private var owningStamp = StoreLock.NoStamp

  def acquire(): Long = synchronized {
    await("acquire")
    if (closed) throw new IllegalStateException(s"the provider of $id is closed")
    take()
  }

  /** Does the work as the owner. False if there is one for longer than so many ms. */
  def ifFree(work: => Unit, waitMillis: Long = 0): Boolean = {
    val stamp = synchronized {
      awaitFree(waitMillis)
      Option.when(!closed && owner.isEmpty)(take())
    }
    stamp.foreach { stamp =>
      try work
      finally release(stamp)
    }
    stamp.isDefined
  }

  private def take(): Long = {
    owner = Some(AcquiredThreadInfo())
    lastStamp += 1
    owningStamp = lastStamp
    lastStamp
  }

  /** Throws if the stamp is not the owner's. Called at each operation on a store. */
  def check(stamp: Long): Unit =
    if (stamp != owningStamp) throw StateStoreErrors.invalidStamp(stamp, owningStamp)

  /** Does nothing if the stamp is not the owner's any more. */
  def release(stamp: Long): Unit = synchronized {
    if (stamp == owningStamp) {
      owner = None
      owningStamp = StoreLock.NoStamp
      notifyAll()
    }
  }

  def isClosed: Boolean = synchronized(closed)

  /** Returns whether this was the first call. */
  def close(): Boolean = synchronized {
    val first = !closed
    if (first) {
      await("close")
      closed = true
    }
    first
  }

  private def await(operation: String): Unit = {
    val waited = awaitFree(timeoutMillis)
    owner.foreach(holder => throw inUse(operation, holder, waited))
  }

  /** Returns how long it has waited. */
  private def awaitFree(millis: Long): Long = {
    val start = System.nanoTime
    def waited: Long = NANOSECONDS.toMillis(System.nanoTime - start)
    while (owner.isDefined && waited < millis) wait(millis - waited)
    waited
  }

  private def inUse(operation: String, holder: AcquiredThreadInfo, waited: Long) = {
    val stack = holder.threadRef.get.fold("")(_.getStackTrace.mkString("\n  at ", "\n  at ", ""))
    new KeystateException(
      ErrorCode.StoreInUse,
      s"${AcquiredThreadInfo()} could not $operation $id within $waited ms, for $holder holds it. If that is " +
        "an attempt of the same task that still works, raise " +
        s"${Settings.LockTimeoutMs.key}; else it is stuck here:$stack"
    )
  }
}

private object StoreLock {

  /** Less than any stamp that is given. */
  private final val NoStamp = 0L
}
