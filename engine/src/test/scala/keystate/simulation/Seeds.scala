package keystate.simulation

import scala.collection.mutable
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.Duration
import scala.concurrent.{Await, Future}

/** Runs many seeds. */
object Seeds {

  /** What many seeds did.
    *
    * @param millis
    *   of the simulated clock
    * @param reached
    *   how often each kind of thing happened
    */
  final case class Report(
      seeds: Long,
      steps: Long,
      millis: Long,
      reached: collection.Map[String, Long],
      failed: Seq[Failure]
  ) {
    def +(other: Report): Report = Report(
      seeds + other.seeds,
      steps + other.steps,
      millis + other.millis,
      mutable.TreeMap.from(reached) ++= other.reached.map { case (kind, times) =>
        kind -> (times + reached.getOrElse(kind, 0L))
      },
      (failed ++ other.failed).sortBy(_.seed)
    )
  }

  /** A seed in whose run something did not hold.
    *
    * @param events
    *   how many there were
    * @param only
    *   those that happened, if some were left out
    */
  final case class Failure(
      seed: Long,
      cause: Throwable,
      story: String,
      events: Int,
      only: Option[Set[Int]] = None
  )

  /** One run. */
  final case class Attempt(simulation: Simulation, failure: Option[Failure])

  def attempt(seed: Long, mutation: Option[Mutation], only: Option[Set[Int]] = None): Attempt = {
    val simulation = new Simulation(seed, mutation, only)
    val world = simulation.world
    val failure =
      try {
        simulation.run()
        None
      } catch {
        // The storage's own trouble with a mutation is a find too.
        case e: Throwable =>
          Some(Failure(seed, e, world.story.text, world.random.events, only))
      }
    Attempt(simulation, failure)
  }

  /** Fewer events with which a seed fails in the same way. */
  def shorter(failure: Failure, mutation: Option[Mutation], mostRuns: Int): Failure =
    new Shrinking(failure, mostRuns)(only => attempt(failure.seed, mutation, Some(only)).failure)
      .run()

  /** Runs seeds on all cores, on each until so many have failed. */
  def runOnAllCores(from: Long, until: Long, mostFailures: Int): Report = {
    val cores = Runtime.getRuntime.availableProcessors
    val parts = (0 until cores).map { core =>
      Future(run((from + core until until by cores.toLong).iterator, None, mostFailures))
    }
    Await.result(Future.reduceLeft(parts)(_ + _), Duration.Inf)
  }

  /** Runs the seeds until so many have failed. */
  def run(
      seeds: Iterator[Long],
      mutation: Option[Mutation] = None,
      mostFailures: Int = 1
  ): Report = {
    val reached = mutable.TreeMap.empty[String, Long]
    val failed = mutable.ArrayBuffer.empty[Failure]
    var count, steps, millis = 0L
    while (seeds.hasNext && failed.size < mostFailures) {
      val seed = seeds.next()
      val Attempt(simulation, failure) = attempt(seed, mutation)
      failed ++= failure
      count += 1
      steps += simulation.world.scheduler.steps
      millis += simulation.world.scheduler.now
      simulation.world.story.reached.foreach { case (kind, times) =>
        reached(kind) = reached.getOrElse(kind, 0L) + times
      }
    }
    Report(count, steps, millis, reached, failed.toSeq)
  }
}
