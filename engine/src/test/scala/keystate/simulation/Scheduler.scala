package keystate.simulation

import java.util.concurrent.{ExecutorService, Executors, Semaphore, TimeUnit}

import scala.collection.mutable
import scala.util.control.ControlThrowable

import keystate.files.Concurrently

/** The process of whoever makes a request is dead: nothing that it does after this has an effect. */
object Crashed extends ControlThrowable

/** What must hold does not. */
final class Violation(message: String, cause: Throwable = null) extends Error(message, cause)

/** A driver, an executor, or what else ends as one. */
final class Process(val name: String) {
  var isDead = false
  override def toString: String = name
}

/** Runs actors, one at a time, and lets the seed say at each of their requests who goes on. Each has
  * a thread, for code of the engine can only be suspended on its stack; but a thread waits until it
  * is handed the baton. So a seed always gives the same order. The clock is simulated too.
  *
  * @param random
  *   decides
  * @param stickiness
  *   how likely the actor at work goes on
  * @param longestTick
  *   how many ms a request takes at most
  */
final class Scheduler(random: Choices, stickiness: Double, longestTick: Int, mostSteps: Int) {
  import Scheduler._

  /** Something that runs in a process until it waits. */
  private final class Actor(val process: Process, val name: String, body: () => Unit) {
    val baton = new Semaphore(0)
    var awaits: () => Boolean = _
    var wakesAt = Long.MaxValue

    def isReady: Boolean =
      isAborted || process.isDead || now >= wakesAt || (awaits == null && wakesAt == Long.MaxValue) ||
        (awaits != null && awaits())

    def start(): Unit = threads.execute { () =>
      baton.acquire()
      try
        if (!isAborted && !process.isDead) Concurrently.oneByOne(body())
      catch {
        case Crashed =>
        case e: Throwable => fail(e)
      } finally {
        actors -= this
        next() match {
          case Some(actor) => giveTo(actor)
          case None => ended.release()
        }
      }
    }
  }

  private val actors = mutable.ArrayBuffer.empty[Actor]
  private val ended = new Semaphore(0)
  private var running: Actor = _
  private var failure: Option[Throwable] = None
  private var isAborted = false
  private var stepCount = 0
  private var millis = 0L

  /** Called before each request, by the actor that makes it; it may let processes die. */
  var beforeStep: Process => Unit = _ => ()

  /** The time in ms. */
  def now: Long = millis
  def steps: Int = stepCount
  def process: Process = running.process
  def actorName: String = s"${running.process.name}/${running.name}"

  /** Something new that runs in a process. */
  def spawn(process: Process, name: String)(body: => Unit): Unit = {
    val actor = new Actor(process, name, () => body)
    actors += actor
    actor.start()
  }

  /** Runs all actors to their end. Throws what the first of them threw. */
  def run(): Unit = {
    next().foreach { first =>
      giveTo(first)
      if (!ended.tryAcquire(HangSeconds, TimeUnit.SECONDS))
        throw new Violation(s"hangs: $actorName")
    }
    failure.foreach(throw _)
  }

  /** An actor is about to make a request: others may come before it. */
  def step(): Unit = {
    val me = running
    countStep()
    millis += random.nextInt(longestTick + 1).toLong
    if (!isAborted) beforeStep(me.process)
    if (random.isEvent(random.nextDouble() >= stickiness)) goOn(me) else checkAlive(me)
  }

  private def countStep(): Unit = {
    stepCount += 1
    if (stepCount > mostSteps && !isAborted)
      throw new Violation(s"does not end within $mostSteps steps")
  }

  /** The actor waits until this is so, at most for some ms. Returns whether it is. */
  def await(condition: => Boolean, atMost: Long = Long.MaxValue / 8): Boolean = {
    val me = running
    countStep()
    me.awaits = () => condition
    me.wakesAt = millis + atMost
    if (!me.isReady) goOn(me) else checkAlive(me)
    me.awaits = null
    me.wakesAt = Long.MaxValue
    condition
  }

  def sleep(atMost: Long): Unit = {
    val _ = await(condition = false, atMost)
  }

  /** How many actors of live processes there are. */
  def count(isMeant: Process => Boolean): Int = actors.count(actor => isMeant(actor.process))

  private def goOn(me: Actor): Unit = {
    next() match {
      case Some(`me`) | None =>
      case Some(other) =>
        giveTo(other)
        me.baton.acquire()
        running = me
    }
    checkAlive(me)
  }

  private def checkAlive(me: Actor): Unit = if (me.process.isDead || isAborted) throw Crashed

  private def giveTo(actor: Actor): Unit = {
    running = actor
    actor.baton.release()
  }

  private def next(): Option[Actor] = {
    val ready = actors.filter(_.isReady)
    if (ready.nonEmpty) Some(ready(random.nextInt(ready.size)))
    else if (actors.isEmpty) None
    else {
      val first = actors.minBy(_.wakesAt)
      if (first.wakesAt >= Long.MaxValue / 16) {
        fail(
          new Violation(s"all wait: ${actors.map(a => s"${a.process}/${a.name}").mkString(", ")}")
        )
        next()
      } else {
        millis = Math.max(millis, first.wakesAt)
        next()
      }
    }
  }

  private def fail(cause: Throwable): Unit = {
    if (failure.isEmpty) failure = Some(cause)
    isAborted = true
  }
}

private object Scheduler {
  private final val HangSeconds = 60L

  /** Virtual ones where the JDK has them, from 21 on: they hand over in a fifth less time. */
  private val threads: ExecutorService =
    try {
      val virtual = classOf[Executors].getMethod("newVirtualThreadPerTaskExecutor")
      virtual.invoke(null).asInstanceOf[ExecutorService]
    } catch {
      case _: NoSuchMethodException =>
        Executors.newCachedThreadPool { work =>
          val thread = new Thread(null, work, "keystate-simulation", 512L * 1024)
          thread.setDaemon(true)
          thread
        }
    }
}
