package keystate.files

import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}
import java.util.concurrent.{
  ExecutionException, Executors, Future, LinkedBlockingQueue, ThreadFactory, ThreadPoolExecutor,
  TimeUnit
}

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.control.NonFatal

/** Runs requests to the checkpoint's storage, which mostly wait, in parallel, in its own threads.
  */
object Concurrently {

  /** How many requests of one task run at a time. */
  private final val Requests = 64

  /** How many results are made before the current one is used. */
  private final val Window = 8

  private final val LongestIdleSeconds = 60L
  private val numbers = new AtomicInteger

  private val daemons: ThreadFactory = work => {
    val thread = new Thread(work, s"keystate-storage-${numbers.incrementAndGet()}")
    thread.setDaemon(true)
    thread
  }

  /** Shared by all stores of this process, which load at the same time. */
  private lazy val ahead: ThreadPoolExecutor = {
    val threads = 4 * Window
    val queue = new LinkedBlockingQueue[Runnable]
    val pool =
      new ThreadPoolExecutor(threads, threads, LongestIdleSeconds, TimeUnit.SECONDS, queue, daemons)
    pool.allowCoreThreadTimeOut(true)
    pool
  }

  /** Whether this thread does all of its work itself. */
  private val alone = ThreadLocal.withInitial[Boolean](() => false)

  /** Does work without parallelism: one item after the other, in this thread. So a simulation can
    * decide the order of requests.
    */
  private[keystate] def oneByOne[T](work: => T): T = {
    val before = alone.get
    alone.set(true)
    try work
    finally alone.set(before)
  }

  /** The results of all items, in their order. If an item fails, items that have not begun are
    * skipped, and this throws once none is running.
    */
  def map[A, B](items: Seq[A])(work: A => B): Seq[B] =
    if (items.size <= 1 || alone.get) items.map(work)
    else {
      val pool = Executors.newFixedThreadPool(Math.min(items.size, Requests), daemons)
      val begun = items.map(item => new Begun(pool.submit(_), () => work(item)))
      try begun.map(_.result())
      finally {
        begun.foreach(_.leave(_ => ()))
        pool.shutdown()
      }
    }

  /** Uses the result of each item, in order and in this thread, while the next results are made. If
    * anything fails, unused results are passed to `giveUp`.
    */
  def foreach[A, B](items: Seq[A])(make: A => B)(giveUp: B => Unit)(use: B => Unit): Unit =
    if (items.size <= 1 || alone.get) items.foreach(item => use(make(item)))
    else {
      val waiting = items.iterator
      val made = mutable.Queue.empty[Begun[B]]
      try
        while (made.nonEmpty || waiting.hasNext) {
          while (made.size < Window && waiting.hasNext) {
            val item = waiting.next()
            made += new Begun(ahead.submit(_), () => make(item))
          }
          use(made.dequeue().result())
        }
      finally made.foreach(_.leave(giveUp))
    }

  /** A piece of work that waits for a thread, is done in one, or is over. */
  private final class Begun[B](submit: Runnable => Future[_], work: () => B) {
    private val claimed = new AtomicBoolean
    @volatile private var made: Option[B] = None
    private val future =
      submit(() => if (claimed.compareAndSet(false, true)) made = Some(work()))

    def result(): B =
      try {
        future.get()
        made.get
      } catch { case e: ExecutionException => throw e.getCause }

    /** Skips the item if it has not begun; otherwise waits for its end, despite interrupts. */
    def leave(giveUp: B => Unit): Unit = if (!claimed.compareAndSet(false, true)) {
      awaitEnd(interrupted = false)
      made.foreach { value =>
        made = None
        try giveUp(value)
        catch { case NonFatal(_) => } // what made this give up counts
      }
    }

    @tailrec
    private def awaitEnd(interrupted: Boolean): Unit = {
      val again =
        try {
          future.get()
          false
        } catch {
          case _: ExecutionException => false
          case _: InterruptedException => true
        }
      if (again) awaitEnd(interrupted = true)
      else if (interrupted) Thread.currentThread.interrupt()
    }
  }
}
