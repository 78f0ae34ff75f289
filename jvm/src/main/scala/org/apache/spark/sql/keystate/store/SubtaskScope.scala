package org.apache.spark.sql.keystate.store

/** Keeps one thing that a subtask opens, from task to task of a query's run. Its owner lets one task at
  * a time use it.
  */
private[keystate] final class SubtaskScope extends AutoCloseable {
  private var kept: AutoCloseable = _

  /** @param usable
    *   whether what is kept can serve; if not, it is closed
    */
  def getOrOpen[T <: AutoCloseable](open: => T)(usable: T => Boolean): T = synchronized {
    if (kept != null && !usable(kept.asInstanceOf[T])) close()
    if (kept == null) kept = open
    kept.asInstanceOf[T]
  }

  /** Lets go of it; the next task opens another. */
  override def close(): Unit = synchronized {
    val closing = kept
    kept = null
    if (closing != null) closing.close()
  }
}
