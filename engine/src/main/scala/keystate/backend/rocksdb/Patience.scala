package keystate.backend.rocksdb

/** How many keys must be asked for in their order before a cursor is opened: the more, the more
  * often one was not worth it.
  */
private[rocksdb] final class Patience(fewest: Int) {
  import Patience._

  private var most = fewest

  /** How many must have come in order. */
  def enough: Int = most

  /** A cursor was closed after so many answers. */
  def closed(answers: Int): Unit =
    most = if (answers < Worth) Math.min(2 * most, Longest) else fewest

  /** A cursor could not be read. */
  def failed(): Unit = most = Longest
}

private object Patience {
  private final val Longest = 1024

  /** After how many answers a cursor was worth it: opening one costs some lookups. */
  private final val Worth = 16
}
