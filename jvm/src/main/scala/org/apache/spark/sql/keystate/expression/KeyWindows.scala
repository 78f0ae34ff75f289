package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** A window whose buffers this task has in its hands.
  *
  * @param start
  *   in ms, as is `end`
  * @param stored
  *   the keys of the entries that it was read from; they go if it gets another one
  * @param isOpen
  *   whether it has not fired, or has got rows since
  */
private[expression] final class KeyWindow(
    var start: Long,
    var end: Long,
    var buffers: Buffers,
    var stored: List[Array[Byte]],
    var isOpen: Boolean
) {
  var isChanged = false

  /** The last ms. */
  def last: Long = end - 1
}

/** The windows of a key that this task has in its hands, by their starts.
  *
  * @param key
  *   the key, which nothing changes any more, with its bytes and its group
  */
private[expression] final class KeyWindows(
    val key: UnsafeRow,
    val bytes: Array[Byte],
    val group: Int
) {
  private var windows = new Array[KeyWindow](2)
  private var count = 0

  /** The time of the key's timer when its windows were read; [[StoredWindows.Never]] if it had none.
    * For sessions only.
    */
  var timer: Long = StoredWindows.Never

  def size: Int = count
  def apply(i: Int): KeyWindow = windows(i)

  /** The index of the first window that does not start before a time. */
  def indexOf(start: Long): Int = {
    var (low, high) = (0, count)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (windows(middle).start < start) low = middle + 1 else high = middle
    }
    low
  }

  def insert(i: Int, window: KeyWindow): Unit = {
    if (count == windows.length) windows = java.util.Arrays.copyOf(windows, count * 2)
    System.arraycopy(windows, i, windows, i + 1, count - i)
    windows(i) = window
    count += 1
  }

  /** Takes out the windows from one index to before another. */
  def remove(from: Int, until: Int): Unit = {
    System.arraycopy(windows, until, windows, from, count - until)
    java.util.Arrays.fill(windows.asInstanceOf[Array[AnyRef]], count - (until - from), count, null)
    count -= until - from
  }
}
