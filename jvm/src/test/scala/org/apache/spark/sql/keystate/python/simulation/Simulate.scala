package org.apache.spark.sql.keystate.python.simulation

import java.io.File

import scala.util.Using

import org.apache.spark.sql.SparkSession

import keystate.simulation.Seeds.Failure
import keystate.simulation.Shrinking

/** `make simulate-conversation`: runs seeds, tells the story of the first that fails, and what all of
  * them reached.
  *
  * Arguments: how many seeds; the first one; for how many seeds find a fault put in on purpose, `all`.
  */
private[simulation] object Simulate {

  /** How many runs a story is made shorter by. */
  private final val MostRuns = 200

  def main(args: Array[String]): Unit = {
    // Run by sbt it is a folder that only tests make.
    new File(System.getProperty("java.io.tmpdir")).mkdirs()
    val count = args.headOption.fold(1000L)(_.toLong)
    val from = args.lift(1).fold(0L)(_.toLong)
    val session = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.driver.host", "127.0.0.1")
      .getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    val isFine =
      try if (args.isDefinedAt(2)) faults(from, count) else seeds(from, count)
      finally session.stop()
    System.exit(if (isFine) 0 else 1)
  }

  private def seeds(from: Long, count: Long): Boolean = Using.resource(new Workers(None)) {
    workers =>
      val start = System.nanoTime
      val report = Seeds.run((from until from + count).iterator, workers.all, mostFailures = 20)
      val seconds = (System.nanoTime - start) / 1e9
      report.failed.headOption.foreach(tell(_, workers, None))
      report.reached.foreach { case (kind, times) => println(f"$times%12d $kind") }
      report.failed.foreach(failure => println(s"seed ${failure.seed}: ${failure.cause}"))
      println(f"${report.seeds} seeds in $seconds%.0f s; ${report.failed.size} failed")
      report.failed.isEmpty
  }

  private def shorter(failure: Failure, workers: Workers, fault: Option[Fault]) =
    new Shrinking(failure, MostRuns)(only =>
      Seeds.attempt(failure.seed, workers.all, fault, Some(only))._2
    ).run()

  /** The story of a failure, and the test that repeats it. */
  private def tell(failure: Failure, workers: Workers, fault: Option[Fault]): Unit = {
    val short = shorter(failure, workers, fault)
    println(short.story)
    short.cause.printStackTrace(System.out)
    val only = short.only.get.toSeq.sorted.mkString("Some(Set(", ", ", "))")
    println(s"  new Simulation(${short.seed}L, workers.all, only = $only).run()")
  }

  private def faults(from: Long, count: Long): Boolean = Fault.all
    .map { fault =>
      Using.resource(new Workers(Some(fault))) { workers =>
        val report = Seeds.run((from until from + count).iterator, workers.all, Some(fault))
        report.failed.headOption match {
          case Some(failure) =>
            val events = shorter(failure, workers, Some(fault)).only.get.size
            println(
              s"| ${fault.text} | ${report.seeds} | ${failure.events} to $events | " +
                s"${failure.cause.toString.linesIterator.next().take(120)} |"
            )
          case None => println(s"| ${fault.text} | not in ${report.seeds} | |")
        }
        report.failed.nonEmpty
      }
    }
    .forall(identity)
}

/** The two processes that attempts share. */
private[simulation] final class Workers(fault: Option[Fault]) extends AutoCloseable {
  val all: Seq[WorkerProcess] = Seq.fill(2)(new WorkerProcess(Fault.ofWorker(fault)))

  override def close(): Unit = all.foreach(_.close())
}
