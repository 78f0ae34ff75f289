package org.apache.spark.sql.keystate.operator

import scala.collection.mutable

import org.apache.hadoop.fs.Path

/** Checks of operators in this driver after the tasks of a micro-batch, before its entry in the
  * commit log. If a check throws, the micro-batch is not committed.
  */
private[keystate] object BeforeCommit {
  private final case class Check(batch: Long, run: () => Unit)

  private final val Kept = 1000

  /** By checkpoint and operator. */
  private val checks = new mutable.LinkedHashMap[(Path, Long), Check]

  /** Replaces the previous check. */
  def put(checkpoint: Path, operator: Long, batch: Long)(check: => Unit): Unit =
    checks.synchronized {
      checks((checkpoint, operator)) = Check(batch, () => check)
      if (checks.size > Kept) checks.remove(checks.head._1)
      ()
    }

  /** Runs the checks of a micro-batch, once. */
  def run(checkpoint: Path, batch: Long): Unit = {
    val due = checks.synchronized {
      val found = checks.filter { case ((of, _), check) =>
        of == checkpoint && check.batch == batch
      }
      checks --= found.keys
      found.values.toSeq
    }
    due.foreach(_.run())
  }
}
