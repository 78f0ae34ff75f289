package keystate.simulation

import scala.collection.mutable

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
  )

  /** A seed in whose run something did not hold. */
  final case class Failure(seed: Long, cause: Throwable, story: String)

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
      val simulation = new Simulation(seed, mutation)
      val story = simulation.world.story
      try simulation.run()
      catch {
        // The storage's own trouble with a mutation is a find too.
        case e: Throwable => failed += Failure(seed, e, story.text)
      }
      count += 1
      steps += simulation.world.scheduler.steps
      millis += simulation.world.scheduler.now
      story.reached.foreach { case (kind, times) =>
        reached(kind) = reached.getOrElse(kind, 0L) + times
      }
    }
    Report(count, steps, millis, reached, failed.toSeq)
  }
}
