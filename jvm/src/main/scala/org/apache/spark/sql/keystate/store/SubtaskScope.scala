package org.apache.spark.sql.keystate.store

/** Keeps one object that a subtask opens, from task to task of a query's run. The owner of the
  * scope makes sure that only one task at a time uses it.
  */
private[keystate] final class SubtaskScope extends AutoCloseable {
  private var kept: AutoCloseable = _

  /** Returns the kept object. If there is none, or it is not usable, opens another.
    *
    * @param usable
    *   whether the kept object can serve this task; if not, it is closed
    */
  def getOrOpen[T <: AutoCloseable](open: => T)(usable: T => Boolean): T = synchronized {
    if (kept != null && !usable(kept.asInstanceOf[T])) close()
    if (kept == null) kept = open
    kept.asInstanceOf[T]
  }

  /** Closes the kept object. The next task opens another. */
  override def close(): Unit = synchronized {
    val closing = kept
    kept = null
    if (closing != null) closing.close()
  }
}
