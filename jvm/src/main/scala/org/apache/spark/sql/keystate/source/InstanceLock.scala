package org.apache.spark.sql.keystate.source

import java.util.concurrent.{CompletableFuture, ExecutionException}

import keystate.SourceFunction

/** The lock of a source's instance: the function holds it while it collects and changes its state,
  * and snapshots are taken under it.
  *
  * The lock is this object's monitor, so that Java's `synchronized` takes it too. A monitor can't
  * be made to wait. So a separate thread, the gate, holds it while there is no room, and takes the
  * snapshots: while it holds the lock, nobody gets in between.
  *
  * @param hasRoom
  *   whether more may be collected; always true after `open`
  */
private[source] final class InstanceLock(name: String, hasRoom: () => Boolean)
    extends SourceFunction.CheckpointLock {
  private def monitor: AnyRef = this

  // Guards what follows. It may be taken with the monitor held, but not the other way round.
  private val signal = new Object
  @volatile private var asked = Option.empty[Asked[_]]
  private var isOpen = false

  private final class Asked[T](work: () => T) {
    val done = new CompletableFuture[T]

    def run(): Unit =
      try done.complete(work()): Unit
      catch { case e: Throwable => val _ = done.completeExceptionally(e) }
  }

  private val gate = new Thread(() => guard(), s"$name gate")
  gate.setDaemon(true)
  gate.start()

  /** Says that there may be no room any more. */
  def changed(): Unit = signal.synchronized(signal.notifyAll())

  override def synchronized[R](block: => R): R = {
    awaitRoom()
    monitor.synchronized(block)
  }

  /** Waits for room, if the calling thread does not hold the lock. */
  private def awaitRoom(): Unit = if (!isFree && !Thread.holdsLock(monitor)) signal.synchronized {
    while (!isOpen && !isFree) signal.wait()
  }

  // Work that must run under the lock goes first: a function in a tight loop lets it pass.
  private def isFree = hasRoom() && asked.isEmpty

  /** Does the work under the lock, between two blocks of the function. */
  def inside[T](work: => T): T = {
    val own = new Asked(() => work)
    signal.synchronized {
      if (isOpen) throw new IllegalStateException(s"$name has ended")
      asked = Some(own)
      signal.notifyAll()
    }
    try own.done.get()
    catch { case e: ExecutionException => throw e.getCause }
  }

  /** From now on nobody waits for room. */
  def open(): Unit = signal.synchronized {
    isOpen = true
    signal.notifyAll()
  }

  private def guard(): Unit = while (isNeeded) monitor.synchronized {
    var next = untilRoom()
    while (next.nonEmpty) {
      next.foreach(_.run())
      next = untilRoom()
    }
  }

  /** Waits until the lock has to be held. False if it need not be any more. */
  private def isNeeded: Boolean = signal.synchronized {
    while (!isOpen && isFree) signal.wait()
    !isOpen
  }

  /** With the lock: waits for work to run under it. None once there is room. */
  private def untilRoom(): Option[Asked[_]] = signal.synchronized {
    while (!isOpen && asked.isEmpty && !hasRoom()) signal.wait()
    val next = asked
    asked = None
    if (next.isEmpty) signal.notifyAll()
    next
  }
}
