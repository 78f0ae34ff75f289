package org.apache.spark.sql.keystate.python.simulation

import org.scalatest.funsuite.AnyFunSuite

import keystate.SessionFixture
import keystate.simulation.Shrinking

/** Seeds of the conversation between tasks and workers; `make simulate-conversation` runs more. */
class ConversationSimulationSuite extends AnyFunSuite with SessionFixture {
  private lazy val workers = {
    assert(spark.sparkContext.isLocal)
    new Workers(None)
  }

  override def afterAll(): Unit =
    try workers.close()
    finally super.afterAll()

  /** What each must have happened, or the seeds see too little. */
  private val reached = Seq(
    "a batch is committed",
    "a batch is run again",
    "a late attempt is refused",
    "a message without rows",
    "a question",
    "the backend is auto",
    "the backend is hashmap",
    "the backend is rocksdb",
    "the function throws",
    "the task is killed",
    "the task is taken for lost, and goes on later",
    "the task's lease ends, and its thread goes on",
    "the worker dies",
    "timers fire"
  )

  test("whatever is cut, late or lost, a batch makes of the states what its rows say") {
    val report = Seeds.run((1000L until 1000L + Seeds.Few).iterator, workers.all)
    report.failed.foreach { failure =>
      println(failure.story)
      fail(s"seed ${failure.seed}: ${failure.cause}", failure.cause)
    }
    report.reached.foreach { case (kind, times) => info(s"$times $kind") }
    assert(reached.filterNot(report.reached.contains) == Nil)
  }

  test("a seed always does the same") {
    val stories = Seq.fill(2) {
      val simulation = new Simulation(7, workers.all)
      simulation.run()
      simulation.story.text
    }
    assert(stories.head.linesIterator.size > 20)
    assert(stories.head == stories(1))
  }

  // Each found something once; its test says what.
  Seq(5051L, 5081L, 5111L, 5467L).foreach { seed =>
    test(s"seed $seed: a due timer that is deleted and set again fires, whatever was read by then") {
      new Simulation(seed, workers.all).run()
    }
  }

  test("a fault is found, its story is made shorter, and happens again") {
    val fault = Some(Fault.LateReply)
    val failure = Seeds.run((0L until 100L).iterator, workers.all, fault).failed.head
    def again(only: Set[Int]) = Seeds.attempt(failure.seed, workers.all, fault, Some(only))._2
    val short = new Shrinking(failure, mostRuns = 10)(again).run()
    assert(short.only.exists(_.size < failure.events))
    assert(again(short.only.get).map(_.story).contains(short.story))
  }
}
