package keystate.simulation

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.rocksdb.SharedMemory

/** Seeds of the simulation; `make simulate` runs more of them. */
class SimulationSuite extends AnyFunSuite {

  /** What each must have happened, or the seeds see too little. */
  private val reached = Seq(
    "a batch is committed",
    "a copy of an older version",
    "a copy of the newest version",
    "a driver is fenced",
    "a function throws",
    "a pending version is rescaled",
    "a reference comes too late",
    "a reference is given up",
    "a request fails",
    "a request is late",
    "a request is repeated",
    "a rescale begins",
    "a rescale ends",
    "a source writes its rows",
    "a second driver starts",
    "a store moves to RocksDB",
    "a store moves to the heap",
    "a store is closed, for another executor has its partition",
    "a task is taken for lost",
    "a task is tried again",
    "an answer is lost",
    "an edit is written",
    "driver dies",
    "editor dies",
    "error KEYSTATE_FENCED",
    "error KEYSTATE_MISSING_VERSION",
    "executor dies",
    "files are looked for that nobody needs",
    "files are referred to",
    "maintenance",
    "referrer dies",
    "runs are merged",
    "runs on hdfs",
    "runs on local",
    "runs on local, synced",
    "runs on objects",
    "savepoint dies",
    "state in memory is recovered",
    "state in memory is recovered after a rescale",
    "stores are on disk",
    "the format changes",
    "the power fails",
    "two attempts at once"
  )

  test("whatever happens, what was committed is there, once, and nothing else stays") {
    val report = Seeds.runOnAllCores(1000L, 2500L, mostFailures = 1)
    report.failed.foreach { failure =>
      println(failure.story)
      fail(s"seed ${failure.seed}: ${failure.cause}", failure.cause)
    }
    report.reached.foreach { case (kind, times) => info(s"$times $kind") }
    info(
      s"${report.seeds} seeds, ${report.steps} steps, ${report.millis / 3600000} simulated hours"
    )
    assert(reached.filterNot(report.reached.contains) == Nil)
    assert(!SharedMemory.isInUse, "a store was not closed")
  }

  test("a seed always does the same") {
    Seq(3L, 6L).foreach { seed =>
      val stories = Seq.fill(2) {
        val simulation = new Simulation(seed)
        simulation.run()
        simulation.world.story.text
      }
      assert(stories.head.linesIterator.size > 100)
      assert(stories.head == stories(1))
    }
  }

  // Each found something once. They say less the more the simulation changes; so what they found has
  // a test of its own too.
  for {
    (what, seeds) <- Seq(
      "a first batch that was rescaled while it was pending" -> Seq(1063L, 2183L),
      "files of a rescale that was given up" -> Seq(46L, 52L),
      "a pin whose writer died" -> Seq(400L),
      "an entry that was read before its folder was synced" -> Seq(15260L),
      "a late commit of a batch that is half run again after a rescale" -> Seq(40783L),
      "a store that is closed while its runs are merged" -> Seq(43594L, 56225L),
      "a source's file whose writer died" -> Seq(174L, 282L),
      "a rescale's request that is done again after the batch was run again" -> Seq(583235L),
      "a rescale that is done again, of a version that its first run has made" -> Seq(653403L),
      "a savepoint while a rescale is done again" -> Seq(782143L)
    )
    seed <- seeds
  } test(s"seed $seed: $what")(new Simulation(seed).run())

  test("a fault in the protocol is found") {
    Seq(Mutation.RunsComeLater, Mutation.NeverLooks, Mutation.CommitsTooSoon).foreach { mutation =>
      val report = Seeds.run((0L until 100L).iterator, Some(mutation))
      assert(report.failed.nonEmpty, mutation.text)
    }
  }

  test("a failure's story is made shorter, and happens again") {
    val mutation = Some(Mutation.RunsComeLater)
    val failure = Seeds.run((0L until 100L).iterator, mutation).failed.head
    val short = Seeds.shorter(failure, mutation, mostRuns = 50)
    assert(short.only.exists(_.size < failure.events / 3))
    assert(short.story.length < failure.story.length)
    val again = Seeds.attempt(failure.seed, mutation, short.only).failure
    assert(again.map(_.story).contains(short.story))
  }
}
