package keystate.simulation

import java.io.File

/** `make simulate`: runs seeds, tells the story of those that fail, and what all of them reached.
  *
  * Arguments: how many seeds; the first one; for how many seeds find a mutation, names of mutations
  * with commas between, or `all`.
  */
object Simulate {

  /** How many runs a story is made shorter by: about a minute. */
  private final val MostRuns = 500

  def main(args: Array[String]): Unit = {
    // Run by sbt it is a folder that only tests make.
    new File(System.getProperty("java.io.tmpdir")).mkdirs()
    val count = args.headOption.fold(1000L)(_.toLong)
    val from = args.lift(1).fold(0L)(_.toLong)
    val isFine = args.lift(2) match {
      case None => seeds(from, count)
      case Some("all") => mutations(Mutation.all, from, count)
      case Some(names) =>
        val chosen = names.split(',').toSet
        mutations(Mutation.all.filter(mutation => chosen(mutation.toString)), from, count)
    }
    System.exit(if (isFine) 0 else 1)
  }

  private def seeds(from: Long, count: Long): Boolean = {
    val start = System.nanoTime
    val report = Seeds.runOnAllCores(from, from + count, mostFailures = 20)
    val seconds = (System.nanoTime - start) / 1e9
    report.failed.headOption.foreach { failure =>
      tell(Seeds.shorter(failure, None, MostRuns))
    }
    report.reached.foreach { case (kind, times) => println(f"$times%12d $kind") }
    report.failed.foreach(failure => println(s"seed ${failure.seed}: ${failure.cause}"))
    println(
      f"${report.seeds} seeds, ${report.steps} steps, ${report.millis / 3600000.0}%.1f simulated hours " +
        f"in $seconds%.0f s; ${report.failed.size} failed"
    )
    report.failed.isEmpty
  }

  /** The story of a failure, and the test that repeats it. */
  private def tell(failure: Seeds.Failure): Unit = {
    println(failure.story)
    val only = failure.only.fold("None")(_.toSeq.sorted.mkString("Some(Set(", ", ", "))"))
    println(s"  new Simulation(${failure.seed}L, only = $only).run()")
  }

  private def mutations(chosen: Seq[Mutation], from: Long, count: Long): Boolean = {
    val found = chosen.map { mutation =>
      val report = Seeds.run((from until from + count).iterator, Some(mutation))
      report.failed.headOption match {
        case Some(failure) =>
          val short = Seeds.shorter(failure, Some(mutation), MostRuns)
          val events = short.only.fold(failure.events)(_.size)
          println(
            s"| ${mutation.text} | ${report.seeds} | ${failure.events} to $events | " +
              s"${failure.cause.getMessage.take(100)} |"
          )
        case None => println(s"| ${mutation.text} | not in ${report.seeds} | |")
      }
      report.failed.nonEmpty
    }
    found.forall(identity)
  }
}
