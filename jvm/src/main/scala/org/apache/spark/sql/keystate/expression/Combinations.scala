package org.apache.spark.sql.keystate.expression

/** The combinations of a row of each stream, with at most `within` from the earliest one to the
  * latest.
  *
  * @param rows
  *   the rows of each stream, by time; null for one that is left out
  * @param after
  *   the latest row is after this time
  */
private[expression] final class Combinations(
    rows: Array[Array[TimedRow]],
    within: Long,
    after: Long
) extends Iterator[Array[TimedRow]] {
  private val streams = rows.indices.filter(rows(_) != null).toArray
  private val last = streams.length - 1
  private val chosen = new Array[TimedRow](rows.length)
  private val result = new Array[TimedRow](rows.length)
  private val position = Array.fill(streams.length)(-1)

  /** The least and the greatest time of the rows that are chosen up to each stream. */
  private val least = new Array[Long](streams.length)
  private val greatest = new Array[Long](streams.length)
  private var depth = 0
  private var isFound = advance()

  override def hasNext: Boolean = isFound

  /** The same array at each call. */
  override def next(): Array[TimedRow] = {
    result.indices.foreach(i => result(i) = chosen(i))
    isFound = advance()
    result
  }

  private def advance(): Boolean = {
    while (depth >= 0) {
      val stream = streams(depth)
      position(depth) += 1
      if (position(depth) == rows(stream).length) {
        position(depth) = -1
        depth -= 1
      } else if (choose(stream, rows(stream)(position(depth))))
        if (depth < last) depth += 1
        else if (greatest(depth) > after) return true
    }
    false
  }

  private def choose(stream: Int, row: TimedRow): Boolean = {
    chosen(stream) = row
    least(depth) = if (depth == 0) row.time else math.min(least(depth - 1), row.time)
    greatest(depth) = if (depth == 0) row.time else math.max(greatest(depth - 1), row.time)
    Micros.minus(greatest(depth), within) <= least(depth)
  }
}
