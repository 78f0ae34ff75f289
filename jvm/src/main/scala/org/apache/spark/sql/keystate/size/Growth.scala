package org.apache.spark.sql.keystate.size

import java.util.concurrent.TimeUnit.{HOURS, MINUTES}
import java.util.{Map => JMap, UUID}

import scala.collection.immutable.Queue

import org.apache.spark.sql.keystate.metrics.Recent

/** How fast a quantity grows, by its values at the beginning of micro-batches in the last hour.
  *
  * @param seen
  *   times in ms since the epoch, and the quantity
  */
private[keystate] final case class Growth(seen: Queue[(Long, Long)] = Queue.empty) {
  import Growth._

  def at(millis: Long, now: Long): Growth =
    Growth((seen :+ (millis -> now)).dropWhile(_._1 < millis - Window).takeRight(Most))

  /** The growth in an hour; None if there are too few values. */
  def perHour: Option[Long] =
    for {
      (since, before) <- seen.headOption
      (until, after) <- seen.lastOption
      if until - since >= Least
    } yield Math.round((after - before).toDouble * Window / (until - since))

  /** In how many minutes there will be `most` at this rate; None if never. */
  def minutesTo(most: Long): Option[Long] = perHour.filter(_ > 0).map { rate =>
    Math.max(0, ((most - seen.last._2).toDouble / rate * HOURS.toMinutes(1)).toLong)
  }
}

private[keystate] object Growth {
  private val Window = HOURS.toMillis(1)
  private val Least = MINUTES.toMillis(1) / 6
  private final val Most = 4096
  private final val Kept = 1000

  /** The growing quantities of this driver's queries: by run, operator, and a name. */
  private val all: JMap[(UUID, Long, String), Growth] = Recent.map(Kept)

  /** Notes a quantity at the beginning of a micro-batch, in the driver. */
  def note(of: (UUID, Long, String), millis: Long, now: Long): Growth = all.synchronized {
    // Taken out first, so that it counts as the newest.
    val growth = Option(all.remove(of)).getOrElse(Growth()).at(millis, now)
    all.put(of, growth)
    growth
  }
}
