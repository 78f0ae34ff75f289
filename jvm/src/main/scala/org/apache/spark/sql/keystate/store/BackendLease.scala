package org.apache.spark.sql.keystate.store

import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.concurrent.locks.ReentrantLock

import org.apache.spark.util.UninterruptibleThread

import keystate.backend.KeyedStateBackend
import keystate.errors.KeystateErrors

/** A task's right to use a backend, from the load of its store until that is closed. What is done for
  * the task is done in `use`: by its own thread, by those that answer its worker, by others that
  * read its result. So whoever comes late is refused: the backend may hold what another task has
  * loaded since.
  *
  * @param check
  *   throws when the store is not this task's any more
  * @param task
  *   for messages
  */
private[keystate] final class BackendLease(
    val backend: KeyedStateBackend,
    check: () => Unit,
    task: String
) {
  private val lock = new ReentrantLock
  @volatile private var over = false
  private var waited = false

  /** The task's thread, which is also the one that ends the lease: an executor's are of this class.
    * Another thread can be the first to read a result.
    */
  private val taskThread = Thread.currentThread match {
    case executors: UninterruptibleThread => executors
    case _ => null
  }

  /** Works with the backend while nobody else does. */
  def use[T](work: => T): T = {
    lock.lock()
    try {
      checkValid()
      work
    } finally lock.unlock()
  }

  /** The same for what is done in one thread only. It needs no lock where that is the task's own. */
  def useInOneThread[T](work: => T): T =
    if (Thread.currentThread eq taskThread) {
      checkValid()
      work
    } else use(work)

  private def checkValid(): Unit = {
    if (over) throw KeystateErrors.taskEnded(task)
    check()
  }

  /** Refuses all work from now on, and waits, once, until what is being done is done: a question takes
    * moments, but a function that another thread is in may never return.
    *
    * @return
    *   whether nobody is at work with the backend; if not, it must be given up
    */
  def end(waitMillis: Long = BackendLease.WaitMillis): Boolean = {
    over = true
    val free = lock.tryLock() || !waited && tryLockUninterruptibly(waitMillis)
    waited = true
    if (free) lock.unlock()
    free
  }

  /** Closes the backend when whoever is at work with it has ended. */
  def closeLater(): Unit = {
    val closer = new Thread(
      () => {
        lock.lock()
        try backend.close()
        finally lock.unlock()
      },
      "keystate-close-backend"
    )
    closer.setDaemon(true)
    closer.start()
  }

  /** A task that is killed is interrupted, and yet should not throw away what is loaded. */
  private def tryLockUninterruptibly(millis: Long): Boolean = {
    val end = System.nanoTime + MILLISECONDS.toNanos(millis)
    var interrupted = false
    var free = false
    var left = millis
    while (!free && left > 0) {
      try free = lock.tryLock(left, MILLISECONDS)
      catch { case _: InterruptedException => interrupted = true }
      left = (end - System.nanoTime) / 1000000
    }
    if (interrupted) Thread.currentThread.interrupt()
    free
  }
}

private object BackendLease {
  private final val WaitMillis = 5000L
}
