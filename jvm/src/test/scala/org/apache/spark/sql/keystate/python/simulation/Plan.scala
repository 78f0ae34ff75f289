package org.apache.spark.sql.keystate.python.simulation

import keystate.simulation.Choices

/** What a function does for a row, and is to tell then. */
private[simulation] final case class Step(name: String, a: Long, b: Long) {
  def text: String = s"$name,$a,$b"
}

private[simulation] final case class Row(number: Int, key: String, steps: Seq[Step]) {
  def text: String = steps.map(_.text).mkString(";")
}

/** What goes wrong in an attempt at a task. */
private[simulation] sealed abstract class Trouble(val text: String)

private[simulation] object Trouble {
  case object Killed extends Trouble("the task is killed")
  case object LeaseEnds extends Trouble("the task's lease ends, and its thread goes on")
  case object WorkerDies extends Trouble("the worker dies")
  case object TakenForLost extends Trouble("the task is taken for lost, and goes on later")
  case object Throws extends Trouble("the function throws")

  val all: Seq[Trouble] = Seq(Killed, LeaseEnds, WorkerDies, TakenForLost, Throws)
}

/** What is drawn anew at each start of a query. */
private[simulation] final case class Settings(
    backend: String,
    messageRows: Int,
    cachedKeys: Int,
    inlineEntries: Int,
    pageEntries: Int,
    firstKeyIndexes: Int,
    flushBytes: Int,
    window: Int
)

/** A micro-batch.
  *
  * @param troubles
  *   those of its attempts, one after the other; the last attempt has none. With each after how many
  *   steps it comes
  * @param again
  *   whether it is run again once it was committed, as after a driver that died
  * @param restart
  *   whether the query starts anew before it
  * @param moves
  *   whether another executor has the partition from here on
  */
private[simulation] final case class Batch(
    rows: Seq[Row],
    watermark: Long,
    clock: Long,
    troubles: Seq[(Trouble, Int)],
    again: Boolean,
    restart: Option[Settings],
    moves: Boolean
)

/** What a seed's query has to do.
  *
  * @param groups
  *   how many key groups there are
  */
private[simulation] final case class Plan(groups: Int, first: Settings, batches: Seq[Batch])

private[simulation] object Plan {
  def apply(random: Choices): Plan = {
    val keys = 1 + random.nextInt(Seq(2, 8, 40)(random.nextInt(3)))
    val chosen = new Steps(random)
    var (watermark, clock) = (100L, 100L)
    var number = 0
    val batches = Seq.fill(2 + random.nextInt(5)) {
      watermark += random.nextInt(30)
      clock += random.nextInt(30)
      val drawn = Seq.fill(random.nextInt(Seq(4, 30, 120)(random.nextInt(3)))) {
        val size = 1 + random.nextInt(3)
        number += 1
        val steps = Seq.fill(size)(chosen.next(watermark, clock))
        Row(number, s"key ${random.nextInt(keys)}", steps)
      }
      val troubles = Seq.fill(2)(
        Trouble.all(random.nextInt(Trouble.all.size)) ->
          (1 << random.nextInt(7)) * (1 + random.nextInt(4))
      )
      val settings = newSettings(random)
      Batch(
        drawn.filter(_ => random.happens(0.95)),
        watermark,
        clock,
        troubles.filter(_ => random.happens(0.25)),
        again = random.happens(0.1),
        restart = Option.when(random.happens(0.25))(settings),
        moves = random.happens(0.2)
      )
    }
    Plan(Seq(1, 4, 16)(random.nextInt(3)), newSettings(random), batches)
  }

  private def newSettings(random: Choices) = Settings(
    backend = Seq("hashmap", "hashmap", "hashmap", "auto", "rocksdb")(random.nextInt(5)),
    messageRows = 1 + random.nextInt(Seq(3, 10, 60)(random.nextInt(3))),
    cachedKeys = 1 + random.nextInt(Seq(2, 6, 30)(random.nextInt(3))),
    inlineEntries = random.nextInt(Seq(1, 4, 40)(random.nextInt(3))),
    pageEntries = 2 + random.nextInt(Seq(2, 12, 60)(random.nextInt(3))),
    firstKeyIndexes = 1 + random.nextInt(Seq(2, 16)(random.nextInt(2))),
    flushBytes = 1 << random.nextInt(17),
    window = 1 + random.nextInt(Seq(2, 10)(random.nextInt(2)))
  )
}

/** Draws what rows do. */
private final class Steps(random: Choices) {

  def next(watermark: Long, clock: Long): Step = {
    val name = Steps.names(random.nextInt(Steps.names.size))
    val (a, b) = (random.nextInt(30).toLong, random.nextInt(10).toLong)
    name match {
      case "timer_set" | "timer_delete" =>
        // Few times, so that one timer is set and deleted again and again.
        val now = if (b % 2 == 0) watermark else clock
        Step(name, now / 10 * 10 + 10 * (a % 4 - 1), b % 2)
      case "map_fill" | "sorted_fill" => Step(name, a, b * (1 + random.nextInt(6)))
      // A list is stored in chunks of some 500 elements, and a page has whole ones.
      case "list_add_all" => Step(name, a, b * Seq(1, 5, 100)(random.nextInt(3)))
      case _ => Step(name, a, b)
    }
  }
}

private object Steps {
  private val often = Seq(
    "get",
    "add",
    "list_add",
    "map_fill",
    "sorted_fill",
    "timer_set",
    "timer_set",
    "timer_delete"
  )

  val names: Seq[String] = often ++ often ++ KeyModel.steps.keys.toSeq.sorted
}
