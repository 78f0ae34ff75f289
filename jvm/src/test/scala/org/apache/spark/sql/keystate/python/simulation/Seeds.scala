package org.apache.spark.sql.keystate.python.simulation

import scala.collection.mutable
import scala.util.control.NonFatal

import keystate.simulation.Seeds.Failure

/** Runs many seeds. */
private[simulation] object Seeds {

  /** How many the ordinary tests run. */
  final val Few = 30

  final case class Report(seeds: Long, reached: collection.Map[String, Long], failed: Seq[Failure])

  def attempt(
      seed: Long,
      workers: Seq[WorkerProcess],
      fault: Option[Fault] = None,
      only: Option[Set[Int]] = None
  ): (Simulation, Option[Failure]) = {
    val simulation = new Simulation(seed, workers, fault, only)
    val failure =
      try {
        simulation.run()
        None
      } catch {
        case e @ (NonFatal(_) | _: AssertionError) =>
          Some(Failure(seed, e, simulation.story.text, simulation.events, only))
      }
    (simulation, failure)
  }

  /** Runs the seeds until so many have failed. */
  def run(
      seeds: Iterator[Long],
      workers: Seq[WorkerProcess],
      fault: Option[Fault] = None,
      mostFailures: Int = 1
  ): Report = {
    val reached = mutable.TreeMap.empty[String, Long]
    val failed = mutable.ArrayBuffer.empty[Failure]
    var count = 0L
    while (seeds.hasNext && failed.size < mostFailures) {
      val (simulation, failure) = attempt(seeds.next(), workers, fault)
      failed ++= failure
      count += 1
      simulation.story.reached.foreach { case (kind, times) =>
        reached(kind) = reached.getOrElse(kind, 0L) + times
      }
    }
    Report(count, reached, failed.toSeq)
  }
}
