package org.apache.spark.sql.keystate.store

import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.concurrent.locks.ReentrantLock

import org.apache.spark.util.UninterruptibleThread

import keystate.backend.KeyedStateBackend
import keystate.errors.KeystateErrors

/** A task's right to use a backend, from the load of its store until the store is closed. All work
  * for the task runs in `use`: in its own thread, in threads that answer its worker, and in others
  * that read its result. So work that comes late is refused. That matters because the backend may
  * by then hold the state of another task.
  *
  * @param check
  *   throws if the store no longer belongs to this task
  * @param task
  *   the task's name, for messages
  */
private[keystate] final class BackendLease(
    val backend: KeyedStateBackend,
    check: () => Unit,
    task: String
) {
  private val lock = new ReentrantLock
  @volatile private var over = false
  private var waited = false

  /** The task's thread, which also ends the lease. Null if the lease was not made in a thread of
    * the class that executors run tasks in: another thread can be the first to read a result.
    */
  private val taskThread = Thread.currentThread match {
    case executors: UninterruptibleThread => executors
    case _ => null
  }

  /** Works with the backend while no other thread does. */
  def use[T](work: => T): T = {
    lock.lock()
    try {
      checkValid()
      work
    } finally lock.unlock()
  }

  /** Works with the backend from one thread only. In the task's own it needs no lock. */
  def useInOneThread[T](work: => T): T =
    if (Thread.currentThread eq taskThread) {
      checkValid()
      work
    } else use(work)

  private def checkValid(): Unit = {
    if (over) throw KeystateErrors.taskEnded(task)
    check()
  }

  /** Refuses all work from now on, and waits for running work. Only the first call waits: a
    * question takes moments, but a function in another thread may never return.
    *
    * @return
    *   whether nobody uses the backend; if somebody does, the backend must be given up
    */
  def end(waitMillis: Long = BackendLease.WaitMillis): Boolean = {
    over = true
    val free = lock.tryLock() || !waited && tryLockUninterruptibly(waitMillis)
    waited = true
    if (free) lock.unlock()
    free
  }

  /** Closes the backend once running work on it has ended. */
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

  /** Waits despite interrupts: a killed task is interrupted, but should keep its loaded state. */
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
