package org.apache.spark.sql.keystate.checkpoint

/** The progress of some work. One thread works, others may read. */
private[keystate] final class Progress {
  @volatile private var done, total = 0

  def begin(steps: Int): Unit = {
    done = 0
    total = steps
  }

  def step(): Unit = done += 1

  /** Such as `3/20`; `0/0` where nothing is under way. */
  override def toString: String = s"$done/$total"
}
