package keystate.backend

import java.util.concurrent.atomic.AtomicLong

/** The bytes of the heap that something may take, shared by all stores of a JVM. Any thread may use
  * it.
  */
private[keystate] final class HeapBudget(bytes: Long) {
  private val free = new AtomicLong(bytes)

  /** A store's share of the budget. */
  def share(): HeapBudget.Share = new HeapBudget.Share(free)
}

private[keystate] object HeapBudget {

  /** The part of the budget that one store has taken. One thread at a time. */
  final class Share private[HeapBudget] (free: AtomicLong) extends AutoCloseable {
    private var taken = 0L
    private var closed = false

    def takenBytes: Long = taken

    /** False if there are not so many bytes left. */
    def take(bytes: Long): Boolean = {
      val took =
        !closed && bytes <= free.getAndUpdate(left => if (bytes <= left) left - bytes else left)
      if (took) taken += bytes
      took
    }

    def giveBack(bytes: Long): Unit = if (!closed) {
      taken -= bytes
      free.addAndGet(bytes): Unit
    }

    /** Gives all back. */
    override def close(): Unit = {
      giveBack(taken)
      closed = true
    }
  }
}
