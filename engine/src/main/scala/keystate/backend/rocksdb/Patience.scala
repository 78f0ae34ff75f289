package keystate.backend.rocksdb

/** How many keys must be looked up in order before a cursor is opened. The number rises each time a
  * cursor did not pay off.
  */
private[rocksdb] final class Patience(fewest: Int) {
  import Patience._

  private var most = fewest

  /** The number of keys that must come in order. */
  def enough: Int = most

  /** A cursor was closed after so many answers. */
  def closed(answers: Int): Unit =
    most = if (answers < Worth) Math.min(2 * most, Longest) else fewest

  /** A cursor could not be read. */
  def failed(): Unit = most = Longest
}

private object Patience {
  private final val Longest = 1024

  /** The number of answers after which a cursor has paid off: opening one costs some lookups. */
  private final val Worth = 16
}
