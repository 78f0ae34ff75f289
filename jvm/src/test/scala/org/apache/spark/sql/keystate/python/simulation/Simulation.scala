package org.apache.spark.sql.keystate.python.simulation

import java.io.File
import java.net.URI
import java.util.UUID

import scala.collection.mutable
import scala.util.Random

import org.apache.commons.io.FileUtils

import org.apache.spark.sql.internal.SQLConf

import keystate.config.Settings.{Backend, MaxParallelism}
import keystate.simulation.Choices
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider
import org.apache.spark.sql.keystate.store.{KeyGroupStateStore, ProviderFixture}

/** A partition of a query, whose task talks with its worker: one number decides what happens.
  *
  * @param workers
  *   two, that attempts may be at work at the same time
  * @param only
  *   the numbers of the events that happen; None lets all happen
  */
private[simulation] final class Simulation(
    seed: Long,
    workers: Seq[WorkerProcess],
    fault: Option[Fault] = None,
    only: Option[Set[Int]] = None
) extends ProviderFixture {
  val story = new Story
  private val choices = new Choices(seed, only)
  private val plan = Plan(choices)
  private val random = new Random(seed ^ 0x5deece66dL)
  private val operator = new SimulatedOperator(workers.head.declared)
  private val stored = new StoredStates(operator.spec, plan.groups)
  private val folder = newFolder()

  private var query: Attempt.Run = _
  private var provider: KeyGroupStateStoreProvider = _
  private var version = 0L
  private var model = Map.empty[String, KeyModel]

  def events: Int = choices.events

  def run(): Unit =
    try {
      start(plan.first)
      plan.batches.zipWithIndex.foreach { case (batch, i) =>
        batch.restart.foreach(start)
        if (batch.moves) move()
        story.tell(
          s"batch $i, watermark ${batch.watermark}, time ${batch.clock}: " +
            batch.rows.map(row => s"\n  ${row.number} ${row.key}: ${row.text}").mkString
        )
        val (after, told) = expected(batch)
        complete(batch, told, batch.troubles)
        if (batch.again) {
          story.tell("the batch is run again", "a batch is run again")
          complete(batch, told, Nil)
        }
        version += 1
        model = after
        check()
      }
    } finally {
      if (provider != null) provider.close()
      FileUtils.deleteDirectory(new File(new URI(folder)))
    }

  private def start(settings: Settings): Unit = {
    query = Attempt.Run(UUID.randomUUID, settings, plan.groups)
    story.tell(s"the query starts with $settings")
    story.reach(s"the backend is ${settings.backend}")
    move()
  }

  /** Another executor gets the partition. */
  private def move(): Unit = {
    if (provider != null) provider.close()
    provider = newProvider(
      folder,
      // There is no query that would be told.
      conf = Map(SQLConf.STATE_STORE_COMMIT_VALIDATION_ENABLED.key -> "false"),
      hadoop = Map(Backend.key -> query.settings.backend, MaxParallelism.key -> s"${plan.groups}")
    )
  }

  /** What a batch makes of the states, and what it is to tell. */
  private def expected(batch: Batch): (Map[String, KeyModel], Expected) = {
    val states = mutable.HashMap.from(model).withDefaultValue(KeyModel())
    val rows = batch.rows.map { row =>
      val (next, told) = states(row.key).after(row)
      states(row.key) = next
      (row, told)
    }
    val fired = states.toMap.flatMap { case (key, before) =>
      val (after, told) = before.passed(batch.watermark, batch.clock)
      states(key) = after
      Option.when(told.nonEmpty)(key -> told)
    }
    if (fired.nonEmpty) story.reach("timers fire")
    (states.toMap.filterNot(_._2.isEmpty), Expected(rows, fired))
  }

  /** Runs the batch until an attempt commits, and checks its results. */
  private def complete(batch: Batch, expected: Expected, troubles: Seq[(Trouble, Int)]): Unit = {
    val attempts = new Attempts(
      (number, index, trouble) =>
        new Attempt(
          operator,
          workers(index),
          provider,
          batch,
          version,
          query,
          number,
          trouble,
          random,
          fault,
          story
        ),
      () => random.nextInt(4) == 0,
      story
    )
    expected.check(
      attempts.run(troubles, batch.rows.size, () => if (random.nextInt(3) == 0) move())
    )
    story.tell(s"version ${version + 1} is committed", "a batch is committed")
  }

  /** Checks that the version has what the batches in it make of the states, and nothing else. */
  private def check(): Unit = {
    val store = provider.getReadStore(version, None).asInstanceOf[KeyGroupStateStore]
    val found =
      try stored.of(store)
      finally store.release()
    (found.keySet ++ model.keySet).toSeq.sorted.foreach { key =>
      val (has, should) = (found.get(key), model.get(key))
      if (has != should)
        throw new AssertionError(s"version $version of $key has\n  $has, and not\n  $should")
    }
  }
}

/** What a batch is to tell.
  *
  * @param timers
  *   of each key in the order in which they fire
  */
private[simulation] final case class Expected(
    rows: Seq[(Row, Told)],
    timers: Map[String, Seq[String]]
) {
  def check(found: Seq[(String, Int, String)]): Unit = {
    val (ofTimers, ofRows) = found.partition(_._2 == -1)
    if (ofRows.map(_._2) != rows.map(_._1.number))
      throw new AssertionError(
        s"rows ${ofRows.map(_._2)} gave results, not ${rows.map(_._1.number)}"
      )
    ofRows.zip(rows).foreach { case ((key, number, result), (row, told)) =>
      if (key != row.key || !told.fits(result))
        throw new AssertionError(s"row $number of ${row.key}, ${row.text}: $key tells '$result'")
    }
    val fired = ofTimers.groupMap(_._1)(_._3)
    if (fired != timers) throw new AssertionError(s"timers told $fired, not $timers")
  }
}
