package org.apache.spark.sql.keystate.python.simulation

import scala.collection.mutable

/** What happened, for people; and how often each kind of thing did. */
private[simulation] final class Story {
  private val lines = mutable.ArrayBuffer.empty[String]
  private val counts = mutable.TreeMap.empty[String, Long]

  /** @param reached
    *   the kind of thing, if it is to be counted
    */
  def tell(what: String, reached: String = null): Unit = {
    lines += what
    if (reached != null) reach(reached)
  }

  def reach(kind: String): Unit = counts(kind) = counts.getOrElse(kind, 0L) + 1

  def reached: collection.Map[String, Long] = counts

  def text: String = lines.mkString("\n")
}
